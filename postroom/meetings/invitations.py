"""Invitations by mail: one per person, each sent once, in the name of the customer whose list has the person."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr
from typing import Any

from postroom.changes.model import Change
from postroom.delivery import aws
from postroom.delivery.customer import Customer
from postroom.delivery.moments import spans
from postroom.delivery.moments import zone as zone_of
from postroom.delivery.notice import Notice
from postroom.delivery.outgoing import Outgoing
from postroom.delivery.recipients import PAGE, Page, Recipient, only, recipients
from postroom.delivery.report import Report, enter
from postroom.delivery.send import Delivering
from postroom.delivery.writing import UNSUBSCRIBE, without_link
from postroom.ledger import Book
from postroom.meetings.attendees import TOPIC
from postroom.meetings.ics import Method, calendar
from postroom.meetings.meeting import Meeting
from postroom.meetings.standing import CANCELLED, ICS, SCHEDULED, UPDATED

_TITLES = {"REQUEST": "Invitation", "CANCEL": "Cancelled"}


def notice_of(change: Change, customer: Customer, version: int, sequence: int, method: Method) -> Notice:
    """What makes an invitation the same invitation: the meeting's sequence, not the change's status."""
    status = f"meeting-{sequence}" if method == "REQUEST" else f"meeting-off-{sequence}"
    return Notice(change.change_id, version, status, customer, TOPIC, "meeting")


class Invitations(Outgoing):
    """A raw mail for each person, with the calendar file that names this person alone."""

    def __init__(self, notice: Notice, meeting: Meeting, *, method: Method, sequence: int, stamp: datetime) -> None:
        super().__init__(notice, *words(meeting, notice.customer, method, sequence))
        self._meeting, self.method, self._sequence, self._stamp = meeting, method, sequence, stamp
        self._customer = notice.customer

    def content(self, address: str) -> dict[str, Any]:
        file = calendar(
            self._meeting,
            self._customer,
            address,
            method=self.method,
            sequence=self._sequence,
            stamp=self._stamp,
        )
        said = words(self._meeting, self._customer, self.method, self._sequence)
        return {"Raw": {"Data": mail(self._customer, address, *said, file, self.method)}}


def mail(customer: Customer, to: str, subject: str, text: str, html: str, file: bytes, method: Method) -> bytes:
    """multipart/alternative, the calendar last: what Outlook and others take for an invitation."""
    message = EmailMessage(policy=SMTP)
    name, address = parseaddr(customer.sender)
    message["From"] = Address(name or customer.name, addr_spec=address)
    message["To"] = to
    if customer.reply_to:
        message["Reply-To"] = customer.reply_to
    message["Subject"] = subject
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    message.add_alternative(
        file, maintype="text", subtype="calendar", cte="base64", params={"method": method, "charset": "UTF-8"}
    )
    return bytes(message)


def words(meeting: Meeting, customer: Customer, method: Method, sequence: int) -> tuple[str, str, str]:
    """Subject, plain text and HTML, with the times in the customer's zone and in UTC."""
    title = "Updated" if method == "REQUEST" and sequence > 0 else _TITLES[method]
    subject = f"{title}: {meeting.title}"[:200]
    when = spans(meeting.start, meeting.end, zone_of(customer.timezone, f"customer {customer.code}"))
    facts = [*when, *([meeting.location] if meeting.location else [])]
    off = "This meeting has been called off." if method == "CANCEL" else ""
    goodbye = f"To hear no more of meetings: {UNSUBSCRIBE}"
    described = without_link(meeting.text)
    text = "\n\n".join(part for part in (subject, off, "\n".join(facts), described, goodbye) if part) + "\n"
    lines = "<br>".join(html.escape(fact) for fact in facts)
    body = (
        '<!doctype html><html><body style="font-family:sans-serif;max-width:40em;margin:auto;padding:1em">'
        f"<h2>{html.escape(subject)}</h2>"
        + (f"<p>{off}</p>" if off else "")
        + f"<p>{lines}</p>{without_link(meeting.html)}"
        + f'<p style="color:#666"><a href="{UNSUBSCRIBE}">Hear no more of meetings</a></p></body></html>'
    )
    return subject, text, body


def invited(book: Book, change: Change, customers: Sequence[Customer]) -> dict[str, tuple[str, str]]:
    """Who was, or may have been, invited by mail so far: customer code and address by lower-case address."""
    found: dict[str, tuple[str, str]] = {}
    accounts = {customer.account: customer for customer in customers}
    for version, sequence in _told(change):
        for customer in accounts.values():
            notice = notice_of(change, customer, version, sequence, "REQUEST")
            for row in book.deliveries.of_batch(notice.batch):
                if row.state != "failed":
                    code = str(row.detail.get("customer") or customer.code)
                    found.setdefault(row.recipient, (code, row.recipient))
    return found


def _told(change: Change) -> Iterator[tuple[int, int]]:
    """Version and sequence of each invitation since the meeting was last called off."""
    told: list[tuple[int, int]] = []
    for each in change.modifications:
        detail: Mapping[str, Any] = each.detail or {}
        if each.type == CANCELLED:
            told = []
        elif each.type in (SCHEDULED, UPDATED) and detail.get("through") == ICS:
            told.append((int(detail["version"]), int(detail["sequence"])))
    return iter(told)


async def invite(
    book: Book,
    notice: Notice,
    addresses: Sequence[str],
    written: Callable[[], Invitations],
    check: Callable[[], None],
) -> Report:
    """Tells each of the addresses once, whatever was sent before; counts from the book.

    Who is invited was read from the lists a moment ago. Who is to hear that it is off was invited long ago, and
    may have left, or may not be written to, since.
    """
    await asyncio.to_thread(enter, book, notice)  # before the role is assumed: one that can't be is in the report
    outgoing = await asyncio.to_thread(written)
    pages = _pages(addresses)
    if outgoing.method == "CANCEL":
        ses = await asyncio.to_thread(aws.reading, notice.customer)
        pages = only(recipients(ses, notice.customer, TOPIC), {address.lower() for address in addresses})
    return await Delivering(book, notice, outgoing, check).tell(pages)


async def _pages(addresses: Sequence[str]) -> AsyncIterator[Page]:
    for at in range(0, len(addresses), PAGE):
        yield Page([Recipient(address) for address in addresses[at : at + PAGE]])
