"""A meeting in a Microsoft 365 calendar. Graph itself invites people, tells them of updates and cancels.

Each request may be made twice without harm: a new event carries a transactionId by which Graph knows a repeated
request, an update says everything it wants, and an event that is gone counts as cancelled.
"""

from __future__ import annotations

import re
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
# What we say in an event's body is in a part of its own. The rest is not ours: in an online meeting it holds what
# makes it one, and Graph takes the meeting away from an event that is given a body without it.
_PART = '<div id="postroom">{}</div>'
_OURS = re.compile(r"""<div\b[^>]*\bid=["']?(?:x_)*postroom\b["']?[^>]*>.*?</div>""", re.DOTALL | re.IGNORECASE)
_BEGIN = re.compile(r"<body\b[^>]*>", re.IGNORECASE)
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
            "body": _html(_PART.format(meeting.html)),
            "transactionId": str(transaction),
            "hideAttendees": self._graph.access.hide_attendees,
            "singleValueExtendedProperties": [{"id": MARK, "value": str(transaction)}],
        }
        return CalendarEvent.of(await self._graph.call("POST", f"{self._path}/events", body))

    async def update(
        self, event_id: str, meeting: Meeting, attendees: Sequence[str], *, words: bool = True
    ) -> CalendarEvent:
        """The event as it is wanted now, its words only when they are others; Missing when it is gone."""
        body = wanted(meeting, attendees, self._graph.access)
        if words:
            there = await self._graph.call("GET", self._event(event_id), query={"$select": "id,body"})
            content = str((there.get("body") or {}).get("content") or "")
            body["body"] = _html(_with(_PART.format(meeting.html), content))
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
    """All that an event of ours says but its words, as Graph's `event` has it."""
    if len(attendees) > MOST_ATTENDEES:
        raise LimitReached(f"{len(attendees)} attendees are more than Graph's limit of {MOST_ATTENDEES}")
    body: dict[str, Any] = {
        "subject": meeting.title,
        "start": _moment(meeting.start),
        "end": _moment(meeting.end),
        "location": {"displayName": meeting.location},
        "attendees": [{"emailAddress": {"address": each}, "type": "required"} for each in attendees],
        "responseRequested": True,
    }
    if access.online and (not meeting.location or "teams" in meeting.location.lower()):
        body |= {"isOnlineMeeting": True, "onlineMeetingProvider": "teamsForBusiness"}
    return body


def _html(content: str) -> dict[str, str]:
    return {"contentType": "html", "content": content}


def _with(part: str, content: str) -> str:
    """The body with our part in the place of the one before, else in front of all that is there."""
    if _OURS.search(content):
        return _OURS.sub(lambda _: part, content, count=1)
    begin = _BEGIN.search(content)
    at = begin.end() if begin else 0
    return content[:at] + part + content[at:]


def _moment(moment: datetime) -> dict[str, str]:
    """In UTC: every calendar shows it in its reader's own zone, and no list of zone names has to agree with ours."""
    return {"dateTime": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"), "timeZone": "UTC"}
