"""What has to happen to the meeting of a change: decided from the change and the archive, the same every time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from postroom.changes.model import Change, Status
from postroom.errors import LimitReached, Misconfigured
from postroom.meetings.attendees import Attendees
from postroom.meetings.meeting import Meeting, is_on, meeting_of
from postroom.meetings.standing import GRAPH, ICS, Standing, standing_of

MOST_ATTENDEES = 500  # of one event in Exchange Online


class Action(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    CANCEL = "cancel"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Step:
    """One thing to do, or nothing and why."""

    action: Action
    through: str
    standing: Standing
    reason: str
    meeting: Meeting | None = None


def ledger_key(change: Change) -> str:
    """Whose work the meeting of this version is, however many customers ask for it; calling it off is another."""
    return key_of(change.change_id, change.version, off=change.status in (Status.REJECTED, Status.CANCELLED))


def key_of(change_id: str, version: int, *, off: bool = False) -> str:
    return f"meeting:{change_id}:{version}{':off' if off else ''}"


def earlier_keys(change_id: str, version: int, *, off: bool) -> list[str]:
    """Work on the same meeting that comes before this; what of it is being done must end first."""
    before = [key_of(change_id, each, off=what) for each in range(1, version) for what in (False, True)]
    return [*before, key_of(change_id, version)] if off else before


def through(standing: Standing, *, graph: bool) -> str:
    """By which way the meeting is told: a meeting keeps the way it was begun with, so nobody gets both."""
    if not standing.may_exist:
        return GRAPH if graph else ICS
    if standing.through == GRAPH and not graph:
        raise Misconfigured(
            f"the meeting of change {standing.change_id} is in a Microsoft calendar, but Graph is not set up any more; "
            "set POSTROOM_GRAPH_* (or the block graph/calendar) again"
        )
    return str(standing.through)


def plan(change: Change, attendees: Attendees, *, graph: bool) -> Step:
    """The step for the change as it stands now. `graph`: whether Microsoft Graph is set up."""
    standing = standing_of(change)
    way = through(standing, graph=graph)
    if change.status is Status.COMPLETED:
        return Step(Action.NOTHING, way, standing, "the change is completed")
    if not is_on(change):
        if standing.may_exist:
            return Step(Action.CANCEL, way, standing, _why_off(change))
        return Step(Action.NOTHING, way, standing, f"{_why_off(change)}, and nobody was invited")
    meeting = meeting_of(change)
    if way == GRAPH and len(attendees.people) > MOST_ATTENDEES:
        raise LimitReached(
            f"the meeting of change {change.change_id} would have {len(attendees.people)} attendees; Microsoft Graph "
            f"allows {MOST_ATTENDEES}. Fewer subscribers of aws-calendar, or fewer customers in one change, are needed"
        )
    if not standing.live:
        if not attendees.people:
            return Step(Action.NOTHING, way, standing, "nobody is subscribed to aws-calendar", meeting)
        return Step(Action.CREATE, way, standing, "the change asks for a meeting", meeting)
    if standing.content != meeting.content:
        return Step(Action.UPDATE, way, standing, "the meeting differs from what was told", meeting)
    # By mail, newcomers get the same invitation as the others; a calendar's event has to be told of them.
    if way == GRAPH and standing.people != attendees.print:
        return Step(Action.UPDATE, way, standing, "other people are subscribed now", meeting)
    return Step(Action.NOTHING, way, standing, "all is as it was told", meeting)


def _why_off(change: Change) -> str:
    if change.status in (Status.CANCELLED, Status.REJECTED):
        return f"the change is {change.status.value}"
    return "the change asks for no meeting" if change.meeting_invite is None else "the change is a draft"
