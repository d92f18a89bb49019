"""The meeting that a change asks for: what, when, where, and words about it."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from postroom.changes.model import Change, Status
from postroom.errors import OurFault

_SECTIONS = (
    ("Why", "change_reason"),
    ("What is done", "implementation_plan"),
    ("What you will notice", "expected_customer_impact"),
    ("If it goes wrong", "rollback_plan"),
)


@dataclass(frozen=True)
class Meeting:
    """What calendars show. Times are moments in the change's own zone."""

    change_id: str
    title: str
    start: datetime
    end: datetime
    location: str
    words: tuple[tuple[str, str], ...]  # heading and text

    @property
    def text(self) -> str:
        """The description, as plain text."""
        return "\n\n".join(f"{heading}\n{said}" if heading else said for heading, said in self.words)

    @property
    def html(self) -> str:
        """The description, as HTML in which nothing of the writer's is markup."""
        parts = []
        for heading, said in self.words:
            title = f"<h3>{html.escape(heading)}</h3>" if heading else ""
            parts.append(title + "<p>" + html.escape(said).replace("\n", "<br>") + "</p>")
        return "".join(parts)

    @property
    def said(self) -> str:
        """A short print of the description alone."""
        return fingerprint([self.html])

    @property
    def content(self) -> str:
        """A short print of all that calendars show: another one is a real change."""
        start, end = (moment.astimezone(UTC).isoformat() for moment in (self.start, self.end))
        return fingerprint([self.title, start, end, str(self.start.tzinfo), self.location, self.text])


def fingerprint(parts: Iterable[str]) -> str:
    """The same 32 characters for the same parts in the same order."""
    return hashlib.sha256(json.dumps(list(parts), ensure_ascii=False).encode()).hexdigest()[:32]


def is_on(change: Change) -> bool:
    """Whether the change, as it stands, asks for a meeting."""
    return change.meeting_invite is not None and change.status not in (
        Status.DRAFT,
        Status.REJECTED,
        Status.CANCELLED,
    )


def meeting_of(change: Change) -> Meeting:
    """The meeting that the change describes."""
    invite, start = change.meeting_invite, change.meeting_start
    if invite is None or start is None:
        raise OurFault(f"change {change.change_id} asks for no meeting")
    # By the clock of the world: local arithmetic would lose or gain an hour when the clocks are changed.
    end = (start.astimezone(UTC) + timedelta(minutes=invite.duration)).astimezone(start.tzinfo)
    facts = change.change_metadata
    words = [("", f"{facts.title}\nChange {change.change_id}")]
    tickets = [f"{name} {number}" for name, number in _tickets(change) if number]
    if tickets:
        words.append(("Tickets", ", ".join(tickets)))
    words += [(heading, said) for heading, name in _SECTIONS if (said := str(getattr(facts, name)).strip())]
    return Meeting(change.change_id, invite.title, start, end, invite.location.strip(), tuple(words))


def _tickets(change: Change) -> tuple[tuple[str, str | None], ...]:
    tickets = change.change_metadata.tickets
    return (("ServiceNow", tickets.service_now), ("Jira", tickets.jira))
