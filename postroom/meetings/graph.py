"""A meeting in a Microsoft 365 calendar. Graph itself invites people, tells them of updates and cancels.

Each request may be made twice without harm: a new event carries a transactionId by which Graph knows a repeated
request, an update says everything it wants, and an event that is gone counts as cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from postroom.errors import LimitReached, Missing, Unparsable
from postroom.meetings.meeting import Meeting
from postroom.meetings.microsoft import Access, Microsoft
from postroom.meetings.plan import MOST_ATTENDEES

# By this an event is found again whose making was not recorded.
MARK = "String {6f2d1c1e-5a0b-4d0a-9f57-0a6d5b1d8c43} Name postroom-meeting"
CANCELLED_WORDS = "This meeting has been called off."


@dataclass(frozen=True)
class CalendarEvent:
    """What Graph says of an event."""

    id: str
    join_url: str | None = None
    web_link: str | None = None

    @classmethod
    def of(cls, answer: dict[str, Any]) -> CalendarEvent:
        if not isinstance(answer.get("id"), str):
            raise Unparsable("Graph's answer holds no id of an event")
        online = answer.get("onlineMeeting") or {}
        return cls(answer["id"], online.get("joinUrl"), answer.get("webLink"))


class GraphCalendar:
    """The organizer's calendar."""

    def __init__(self, microsoft: Microsoft) -> None:
        self._graph, self._path = microsoft, microsoft.access.calendar

    async def check(self) -> str:
        """The calendar's name; AuthFailed or Missing when it can't be read."""
        answer = await self._graph.call("GET", f"{self._path}/calendar", query={"$select": "id,name,canEdit"})
        return str(answer.get("name", "calendar"))

    async def create(self, meeting: Meeting, attendees: Sequence[str], transaction: UUID) -> CalendarEvent:
        """The event, made now or by an earlier try."""
        body = {
            **wanted(meeting, attendees, self._graph.access),
            "transactionId": str(transaction),
            "hideAttendees": self._graph.access.hide_attendees,
            "singleValueExtendedProperties": [{"id": MARK, "value": str(transaction)}],
        }
        return CalendarEvent.of(await self._graph.call("POST", f"{self._path}/events", body))

    async def update(self, event_id: str, meeting: Meeting, attendees: Sequence[str]) -> CalendarEvent:
        """The event as it is wanted now; Missing when somebody has taken it out of the calendar."""
        body = wanted(meeting, attendees, self._graph.access)
        return CalendarEvent.of(await self._graph.call("PATCH", self._event(event_id), body))

    async def cancel(self, event_id: str) -> bool:
        """Call it off, and let Graph tell the attendees; False when it was gone already."""
        try:
            await self._graph.call("POST", f"{self._event(event_id)}/cancel", {"comment": CANCELLED_WORDS})
        except Missing:
            return False
        return True

    async def find(self, transaction: UUID) -> CalendarEvent | None:
        """The event of that transaction, if an earlier try has made it."""
        query = {
            "$filter": f"singleValueExtendedProperties/Any(ep: ep/id eq '{MARK}' and ep/value eq '{transaction}')",
            "$select": "id,webLink,onlineMeeting",
            "$top": "1",
        }
        found = (await self._graph.call("GET", f"{self._path}/events", query=query)).get("value") or []
        return CalendarEvent.of(found[0]) if found else None

    async def attendees(self, event_id: str) -> list[str]:
        """Addresses of those who are invited; nobody when the event is gone."""
        try:
            answer = await self._graph.call("GET", self._event(event_id), query={"$select": "id,attendees"})
        except Missing:
            return []
        return [str(each["emailAddress"]["address"]) for each in answer.get("attendees", [])]

    def _event(self, event_id: str) -> str:
        return f"{self._path}/events/{quote(event_id, safe='')}"


def wanted(meeting: Meeting, attendees: Sequence[str], access: Access) -> dict[str, Any]:
    """All that an event of ours says, as Graph's `event` has it."""
    if len(attendees) > MOST_ATTENDEES:
        raise LimitReached(f"{len(attendees)} attendees are more than Graph's limit of {MOST_ATTENDEES}")
    body: dict[str, Any] = {
        "subject": meeting.title,
        "body": {"contentType": "html", "content": meeting.html},
        "start": _moment(meeting.start),
        "end": _moment(meeting.end),
        "location": {"displayName": meeting.location},
        "attendees": [{"emailAddress": {"address": each}, "type": "required"} for each in attendees],
        "responseRequested": True,
    }
    if access.online and (not meeting.location or "teams" in meeting.location.lower()):
        body |= {"isOnlineMeeting": True, "onlineMeetingProvider": "teamsForBusiness"}
    return body


def _moment(moment: datetime) -> dict[str, str]:
    """In UTC: every calendar shows it in its reader's own zone, and no list of zone names has to agree with ours."""
    return {"dateTime": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"), "timeZone": "UTC"}
