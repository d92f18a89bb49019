"""Local times: what a person writes, as one moment, or a named reason why it is none."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

from pydantic_core import PydanticCustomError

YEARS = range(1970, 3000)  # a zone's arithmetic has no room at the ends of the calendar
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?")


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def zone(name: str) -> ZoneInfo:
    """The time zone of an IANA name; an error `bad-timezone` when there is none."""
    if name not in _zones():
        raise PydanticCustomError(
            "bad-timezone", "{name} is no time zone; wanted is a name such as Europe/Berlin", {"name": repr(name[:80])}
        )
    return ZoneInfo(name)


def moment(written: str, zone_name: str) -> datetime:
    """A local time as a moment in its zone.

    2027-03-28T02:30 Europe/Berlin   impossible-time: clocks go from 02:00 to 03:00
    2027-10-31T02:30 Europe/Berlin   ambiguous-time: that hour comes twice; an offset says which one is meant
    """
    where = zone(zone_name)
    found = parsed(written)
    if found.tzinfo is not None:
        return found.astimezone(where)
    first, second = found.replace(tzinfo=where, fold=0), found.replace(tzinfo=where, fold=1)
    if first.astimezone(UTC).astimezone(where).replace(tzinfo=None) != found:
        raise PydanticCustomError(
            "impossible-time",
            "{written} does not exist in {zone}: the clocks are put forward over it",
            {"written": written, "zone": zone_name},
        )
    if first.utcoffset() != second.utcoffset():
        offsets = " or ".join(
            f"{written}{each.strftime('%z')[:3]}:{each.strftime('%z')[3:]}" for each in (first, second)
        )
        raise PydanticCustomError(
            "ambiguous-time",
            "{written} comes twice in {zone}, as the clocks are put back; say {offsets}",
            {"written": written, "zone": zone_name, "offsets": offsets},
        )
    return first


def parsed(written: str) -> datetime:
    """The time as written, naive unless it has an offset."""
    try:
        if not _WRITTEN.fullmatch(written):
            raise ValueError
        found = datetime.fromisoformat(written)
        if found.year not in YEARS:
            raise ValueError
        return found
    except ValueError:
        raise PydanticCustomError(
            "bad-time",
            "{written} is no time; wanted is YYYY-MM-DDTHH:MM of the years {first} to {last}",
            {"written": repr(written[:80]), "first": YEARS[0], "last": YEARS[-1]},
        ) from None
