"""Waiting longer each time that something did not answer, never in step with others."""

from __future__ import annotations

import asyncio
import random


class Patience:
    """Pauses that grow from `first` to `longest` seconds, each shortened at random by up to a half."""

    def __init__(self, first: float = 0.25, longest: float = 15.0) -> None:
        self._first, self._longest, self.failures = first, longest, 0

    def again(self) -> None:
        """It worked: begin anew."""
        self.failures = 0

    def next(self) -> float:
        """How long to wait after one more failure."""
        pause = min(self._longest, self._first * 2 ** min(self.failures, 16))
        self.failures += 1
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    async def wait(self) -> None:
        await asyncio.sleep(self.next())
