"""Time zones as calendars want them: the two yearly rules that hold when the meeting is.

Outlook reads one STANDARD and one DAYLIGHT part with a yearly rule each, not lists of dates. Where a zone has
other habits in that year (no two changes of the clock), the meeting is better written in UTC.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from icalendar import Timezone, TimezoneDaylight, TimezoneStandard
from icalendar.prop import vRecur

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BEGINNING = datetime(1601, 1, 1)  # a local time, and the one that Outlook itself writes


@dataclass(frozen=True)
class Turn:
    """The clocks are changed: when by the clock of before, and by what."""

    local: datetime
    before: timedelta
    after: timedelta
    name: str

    @property
    def week(self) -> int:
        """Which one of its weekdays in the month; -1: the last."""
        last = calendar.monthrange(self.local.year, self.local.month)[1]
        return -1 if self.local.day + 7 > last else (self.local.day - 1) // 7 + 1

    @property
    def rule(self) -> dict[str, object]:
        return {"FREQ": "YEARLY", "BYMONTH": self.local.month, "BYDAY": f"{self.week}{_DAYS[self.local.weekday()]}"}

    def in_year(self, year: int) -> datetime:
        """The same rule's moment in another year."""
        month, weekday = self.local.month, self.local.weekday()
        days = [day for day in range(1, calendar.monthrange(year, month)[1] + 1)
                if calendar.weekday(year, month, day) == weekday]  # fmt: skip
        day = days[-1] if self.week == -1 else days[self.week - 1]
        return self.local.replace(year=year, day=day)


def timezone(zone: tzinfo | None, moment: datetime) -> Timezone | None:
    """The VTIMEZONE of a zone around a moment; None when the moment is better said in UTC."""
    if not isinstance(zone, ZoneInfo) or zone.key in ("UTC", "Etc/UTC"):
        return None
    turns = list(_turns(zone, moment.astimezone(zone).year))
    found = Timezone()
    found.add("tzid", zone.key)
    if not turns:
        offset = _offset(zone, moment)
        name = str(moment.astimezone(zone).tzname())
        found.add_component(_part(TimezoneStandard(), _BEGINNING, offset, offset, name))
        return found
    if len(turns) != 2 or turns[0].before != turns[1].after:
        return None
    for turn in turns:
        part = TimezoneDaylight() if turn.after > turn.before else TimezoneStandard()
        whole = _part(part, turn.in_year(turn.local.year - 1), turn.before, turn.after, turn.name)
        whole.add("rrule", vRecur(turn.rule))
        found.add_component(whole)
    return found


def _part(
    part: TimezoneStandard | TimezoneDaylight, begins: datetime, before: timedelta, after: timedelta, name: str
) -> TimezoneStandard | TimezoneDaylight:
    part.add("dtstart", begins)
    part.add("tzoffsetfrom", before)
    part.add("tzoffsetto", after)
    part.add("tzname", name)
    return part


def _turns(zone: ZoneInfo, year: int) -> list[Turn]:
    """Every change of the clock in a year, to the minute."""
    found = []
    at, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    while at < end:
        then = at + timedelta(days=1)
        if _offset(zone, at) != _offset(zone, then):
            early, late = at, then
            while late - early > timedelta(minutes=1):
                middle = early + timedelta(minutes=(late - early) // timedelta(minutes=2))
                early, late = (middle, late) if _offset(zone, middle) == _offset(zone, early) else (early, middle)
            before, after = _offset(zone, early), _offset(zone, late)
            local = (late + before).replace(tzinfo=None)
            found.append(Turn(local, before, after, str(late.astimezone(zone).tzname())))
        at = then
    return found


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()
