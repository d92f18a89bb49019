"""Two clocks: the wall's, which others compare with theirs, and our own, which never jumps."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """The machine's clocks. Tests hand in one that is wrong on purpose."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def iso(ms: int) -> str:
    """Milliseconds since the epoch as ISO 8601 with milliseconds, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def from_iso(text: str) -> int:
    """Milliseconds since the epoch of such a text."""
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000
