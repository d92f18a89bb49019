"""Carrying out a step in a Microsoft calendar, so that whoever is killed at any point can be carried on after.

asked, in the archive ──▶ the event, in the calendar ──▶ scheduled, in the archive
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from postroom.changes.model import Change, Modification
from postroom.errors import Missing, OurFault
from postroom.meetings.attendees import Attendees
from postroom.meetings.graph import CalendarEvent, GraphCalendar
from postroom.meetings.meeting import Meeting, fingerprint
from postroom.meetings.plan import Action, Step, plan
from postroom.meetings.standing import CANCELLED, GRAPH, SCHEDULED, UPDATED, Standing, standing_of

Record = Callable[[Modification], Awaitable[Change]]
Check = Callable[[], None]


async def with_those_invited(attendees: Attendees, change: Change, calendar: GraphCalendar) -> Attendees:
    """When some lists could not be read: together with those who are invited already, so that none is put off."""
    standing = standing_of(change)
    if not attendees.unread or not standing.may_exist:
        return attendees
    event_id = await _event_id(standing, calendar)
    return attendees.joined(await calendar.attendees(event_id)) if event_id else attendees


async def keep(
    step: Step, change: Change, attendees: Attendees, calendar: GraphCalendar, record: Record, check: Check
) -> dict[str, Any]:
    """What was done, and how the meeting stands after it."""
    standing = step.standing
    if step.action is Action.NOTHING:
        return _outcome(step, standing, standing.event_id)
    if step.action is Action.CANCEL:
        event_id = await _event_id(standing, calendar)
        check()
        if event_id is not None:
            await calendar.cancel(event_id)
        entry = standing.entry(CANCELLED, change.version, through=GRAPH, eventId=event_id, reason=step.reason)
        await record(entry)
        return _outcome(step, standing, event_id)
    meeting, people = _wanted(step), _addresses(attendees)
    if step.action is Action.CREATE:
        event = await _create(step, meeting, change, attendees, calendar, record, check)
        kind = SCHEDULED
    else:
        check()
        try:
            words = standing.detail.get("words") != meeting.said
            event = await calendar.update(str(standing.event_id), meeting, people, words=words)
        except Missing:
            return await _anew(standing, change, attendees, calendar, record, check)
        kind = UPDATED
    await record(_entry(kind, standing, change, meeting, attendees, event))
    return _outcome(step, standing, event.id) | {"attendees": len(people)}


async def _create(
    step: Step,
    meeting: Meeting,
    change: Change,
    attendees: Attendees,
    calendar: GraphCalendar,
    record: Record,
    check: Check,
) -> CalendarEvent:
    standing, people = step.standing, _addresses(attendees)
    said = fingerprint([meeting.content, attendees.print])
    made = await calendar.find(standing.transaction) if standing.asked else None
    if said not in standing.asked:
        await record(standing.asking(change.version, GRAPH, said))
    check()
    event = made or await calendar.create(meeting, people, standing.transaction)
    if standing.asked - {said}:  # an earlier try may have made it, with other words
        event = await calendar.update(event.id, meeting, people)
    return event


async def _anew(
    standing: Standing, change: Change, attendees: Attendees, calendar: GraphCalendar, record: Record, check: Check
) -> dict[str, Any]:
    """Somebody took the event out of the calendar. The change still asks for a meeting: it gets the next one."""
    gone = standing.entry(
        CANCELLED, change.version, through=GRAPH, eventId=standing.event_id, reason="taken out of the calendar"
    )
    after = await record(gone)
    return await keep(plan(after, attendees, graph=True), after, attendees, calendar, record, check)


async def _event_id(standing: Standing, calendar: GraphCalendar) -> str | None:
    if standing.event_id or not standing.asked:
        return standing.event_id
    found = await calendar.find(standing.transaction)
    return found.id if found else None


def _entry(
    kind: str, standing: Standing, change: Change, meeting: Meeting, attendees: Attendees, event: CalendarEvent
) -> Modification:
    return standing.entry(
        kind,
        change.version,
        through=GRAPH,
        eventId=event.id,
        joinUrl=event.join_url,
        webLink=event.web_link,
        **times(meeting),
        attendees=len(attendees.people),
        content=meeting.content,
        words=meeting.said,
        people=attendees.print,
        unread=sorted(attendees.unread),
    )


def times(meeting: Meeting) -> dict[str, str]:
    return {"startTime": meeting.start.isoformat(), "endTime": meeting.end.isoformat()}


def _outcome(step: Step, standing: Standing, event_id: str | None) -> dict[str, Any]:
    done: dict[str, Any] = {"action": step.action.value, "through": GRAPH, "reason": step.reason}
    return done | ({"event_id": event_id} if event_id else {})


def _addresses(attendees: Attendees) -> list[str]:
    return [attendees.people[key].address for key in sorted(attendees.people)]


def _wanted(step: Step) -> Meeting:
    if step.meeting is None:
        raise OurFault(f"a step to {step.action.value} a meeting without one")
    return step.meeting
