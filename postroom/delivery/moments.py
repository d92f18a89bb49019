"""Times as people read them: in their own zone, and in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from postroom.errors import BadInput


def zone(name: str, whose: str) -> ZoneInfo:
    """The time zone of that name; `whose` is for the complaint."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise BadInput(f"{whose}: {name!r} is not a time zone") from None


def moment(text: Any, home: ZoneInfo) -> datetime | None:
    """A moment from ISO 8601; without an offset it is meant in `home`. None when it is no moment."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=home)


def spans(begin: datetime | None, end: datetime | None, theirs: ZoneInfo) -> list[str]:
    """The same stretch of time in the reader's zone and in UTC (once, when that is the reader's zone)."""
    if begin is None:
        return []
    here = _span(begin.astimezone(theirs), end.astimezone(theirs) if end else None, theirs.key)
    there = _span(begin.astimezone(UTC), end.astimezone(UTC) if end else None, "UTC")
    return [there] if theirs.key in ("UTC", "Etc/UTC") else [here, there]


def after(begin: datetime | None, minutes: Any) -> datetime | None:
    """So many minutes later, by the clock of the world and not of the wall."""
    try:
        return begin.astimezone(UTC) + timedelta(minutes=float(minutes)) if begin else None
    except (TypeError, ValueError, OverflowError):
        return None


def _span(begin: datetime, end: datetime | None, name: str) -> str:
    day, clock = f"{begin:%a} {begin.day} {begin:%b %Y}", f"{begin:%H:%M}"
    if end is None:
        return f"{day}, {clock} {name}"
    if end.date() == begin.date():
        return f"{day}, {clock} – {end:%H:%M} {name}"
    return f"{day}, {clock} – {end:%a} {end.day} {end:%b %Y}, {end:%H:%M} {name}"
