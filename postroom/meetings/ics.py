"""A meeting as iCalendar, for people without a shared Microsoft calendar.

What Outlook asks for, and gets: one event per file; METHOD in the calendar as in the mail part's type; the same UID
for every update and a SEQUENCE that grows; an ORGANIZER that is the mail's sender; a VTIMEZONE for each TZID;
CANCEL with STATUS:CANCELLED under the same UID; lines of at most 75 bytes that end in CRLF.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parseaddr
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

from icalendar import Calendar, Event, vCalAddress, vText

from postroom.delivery.customer import Customer
from postroom.errors import BadInput
from postroom.meetings.meeting import Meeting
from postroom.meetings.zones import timezone

PRODID = "-//postroom//meetings//EN"
Method = Literal["REQUEST", "CANCEL"]


def uid_of(change_id: str, customer: Customer) -> str:
    """The same for as long as the change is told to the customer's people."""
    domain = parseaddr(customer.sender)[1].rpartition("@")[2].lower() or "postroom.invalid"
    return f"{uuid5(NAMESPACE_URL, f'postroom:meeting:{change_id}:{customer.code}')}@{domain}"


def calendar(
    meeting: Meeting, customer: Customer, attendee: str, *, method: Method, sequence: int, stamp: datetime
) -> bytes:
    """The file for one person. Only that person is named in it: customers do not see each other's people."""
    event = Event()
    event.add("uid", uid_of(meeting.change_id, customer))
    event.add("dtstamp", stamp.astimezone(UTC).replace(microsecond=0))
    event.add("last-modified", stamp.astimezone(UTC).replace(microsecond=0))
    event.add("sequence", sequence)
    event.add("summary", meeting.title)
    # The second of an hour that comes twice has no local name: such a meeting is written in UTC.
    twice = meeting.start.fold or meeting.end.fold
    zone = None if twice else timezone(meeting.start.tzinfo, meeting.start)
    event.add("dtstart", meeting.start if zone else meeting.start.astimezone(UTC))
    event.add("dtend", meeting.end if zone else meeting.end.astimezone(UTC))
    event.add("description", meeting.text)
    if meeting.location:
        event.add("location", meeting.location)
    event.add("status", "CANCELLED" if method == "CANCEL" else "CONFIRMED")
    event.add("transp", "TRANSPARENT" if method == "CANCEL" else "OPAQUE")
    event.add("class", "PUBLIC")
    event.add("x-microsoft-cdo-busystatus", "FREE" if method == "CANCEL" else "BUSY")
    event["organizer"] = _organizer(customer)
    event.add("attendee", _attendee(attendee, method))
    whole = Calendar()
    whole.add("prodid", PRODID)
    whole.add("version", "2.0")
    whole.add("calscale", "GREGORIAN")
    whole.add("method", method)
    if zone:
        whole.add_component(zone)
    whole.add_component(event)
    return bytes(whole.to_ical())


def _organizer(customer: Customer) -> vCalAddress:
    name, address = parseaddr(customer.sender)
    if not address:
        raise BadInput(f"customer {customer.code}: sender {customer.sender!r} is no mail address")
    organizer = vCalAddress(f"mailto:{address}")
    organizer.params["CN"] = vText(name or customer.name)
    return organizer


def _attendee(address: str, method: Method) -> vCalAddress:
    attendee = vCalAddress(f"mailto:{address}")
    attendee.params["CN"] = vText(address)
    attendee.params["CUTYPE"] = vText("INDIVIDUAL")
    attendee.params["ROLE"] = vText("REQ-PARTICIPANT")
    if method == "REQUEST":
        attendee.params["PARTSTAT"] = vText("NEEDS-ACTION")
        attendee.params["RSVP"] = vText("TRUE")
    return attendee
