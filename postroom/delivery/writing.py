"""A change written as a mail: subject, plain text and HTML, from templates and nothing but their input."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from postroom.delivery.customer import Customer
from postroom.delivery.moments import after, moment, spans, zone
from postroom.errors import BadInput

UNSUBSCRIBE = "{{amazonSESUnsubscribeUrl}}"  # SES puts the recipient's own link here
# kind → what stands before the title in the subject
KINDS = {
    "approval-request": "Approval requested",
    "approved": "Approved",
    "completed": "Completed",
    "cancelled": "Cancelled",
    "updated": "Updated",
    "meeting": "Invitation",
}
BY_STATUS = {"submitted": "approval-request", "approved": "approved", "completed": "completed"} | {
    "cancelled": "cancelled"
}
_SECTIONS = (
    ("expectedCustomerImpact", "What you will notice"),
    ("changeReason", "Why"),
    ("implementationPlan", "What is done"),
    ("testPlan", "How it is checked"),
    ("rollbackPlan", "If it goes wrong"),
)
_LEFT_OUT = {("meeting", "testPlan")}  # other words there are no reason to invite people anew
_TICKETS = {"serviceNow": "ServiceNow", "jira": "Jira"}
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
LONGEST_SUBJECT = 200


News = Literal["Invitation", "Updated", "Cancelled"]


@dataclass(frozen=True)
class Appointment:
    """The meeting that a mail is about, and what is new of it."""

    title: str
    begin: datetime | None
    end: datetime | None
    location: str = ""
    link: str = ""
    news: News = "Invitation"


def render(
    kind: str, change: Mapping[str, Any], customer: Customer, appointment: Appointment | None = None
) -> tuple[str, str, str]:
    """Subject, plain text and HTML of the notice. Pure: the same input gives the same mail.

    Without an `appointment` a mail about a meeting is about the one that the change asks for.
    """
    if kind not in KINDS:
        raise BadInput(f"there is no notice of kind {kind!r}, only {', '.join(KINDS)}")
    seen = view(kind, change, customer, appointment)
    text = _templates().get_template(f"{kind}.txt").render(seen)
    html = _templates().get_template(f"{kind}.html").render(seen)
    return str(seen["subject"]), re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", html


def preview(change: Mapping[str, Any], customer: Customer, kind: str | None = None) -> tuple[str, str, str]:
    """The mail that the customer would get of this change; the kind follows its status unless it is given."""
    if kind is None:
        kind = BY_STATUS.get(str(change.get("status")), "approval-request")
    return render(kind, change, customer)


def view(
    kind: str, change: Mapping[str, Any], customer: Customer, appointment: Appointment | None = None
) -> dict[str, Any]:
    """What the templates see."""
    facts = _mapping(change.get("changeMetadata"))
    schedule, invite = _mapping(facts.get("schedule")), _mapping(change.get("meetingInvite"))
    theirs = zone(customer.timezone, f"customer {customer.code}")
    home = zone(str(schedule["timezone"]), "the change's schedule") if schedule.get("timezone") else theirs
    title = _line(facts.get("title")) or f"Change {_line(change.get('changeId'))}"
    begin = moment(_begin(schedule, "implementationStart", "beginDate", "beginTime"), home)
    end = moment(_begin(schedule, "implementationEnd", "endDate", "endTime"), home)
    subject = f"{KINDS[kind]}: {_line(_mapping(change.get('emailNotification')).get('subject')) or title}"
    meets = appointment or _asked_for(invite, home)
    named = _line(meets.title) or title
    if kind == "meeting":
        subject = f"{meets.news}: {named}"
    return {
        "subject": subject[:LONGEST_SUBJECT],
        "title": title,
        "customer": _line(customer.name),
        "change_id": _line(change.get("changeId")),
        "version": change.get("version"),
        "when": spans(begin, end, theirs),
        "sections": [
            (label, said)
            for name, label in _SECTIONS
            if (kind, name) not in _LEFT_OUT and (said := _text(facts.get(name)))
        ],
        "tickets": [
            (_TICKETS.get(name, _line(name)), _line(number))
            for name, number in _mapping(facts.get("tickets")).items()
            if _line(number)
        ],
        "meeting": {
            "title": named,
            "news": meets.news,
            "when": spans(meets.begin, meets.end, theirs),
            "location": _line(meets.location),
            "link": _line(meets.link),
        },
        "unsubscribe": UNSUBSCRIBE,
    }


def _asked_for(invite: Mapping[str, Any], home: ZoneInfo) -> Appointment:
    begin = moment(invite.get("startTime"), home)
    end = after(begin, invite.get("duration"))
    return Appointment(
        str(invite.get("title") or ""), begin, end, str(invite.get("location") or ""), str(invite.get("joinUrl") or "")
    )


@functools.cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("postroom.delivery"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _begin(schedule: Mapping[str, Any], whole: str, day: str, clock: str) -> str | None:
    if schedule.get(whole):
        return str(schedule[whole])
    return f"{schedule[day]}T{schedule.get(clock) or '00:00'}" if schedule.get(day) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    """Text of many lines, without what could steer a terminal, turn the writing direction or pass for our link."""
    said = _CONTROLS.sub("", str(value or "").replace("\r\n", "\n"))
    return without_link(said).strip()


def without_link(said: str) -> str:
    """The text without SES's placeholder, also when taking one out would make another of what is around it."""
    while UNSUBSCRIBE in said:
        said = said.replace(UNSUBSCRIBE, "")
    return said


def _line(value: Any) -> str:
    return " ".join(_text(value).split())
