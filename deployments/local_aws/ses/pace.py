"""How fast an account may send."""

from __future__ import annotations

import time


class Pace:
    """A bucket of one second's worth of sends. A mail to many may overdraw it, as SES lets it; then it waits."""

    def __init__(self) -> None:
        self.left: float | None = None  # full at first
        self.at = time.monotonic()

    def take(self, count: int, rate: float) -> bool:
        full, now = max(1.0, rate), time.monotonic()
        left = full if self.left is None else min(full, self.left + (now - self.at) * rate)
        self.at = now
        if left < 1.0:
            self.left = left
            return False
        self.left = left - count
        return True
