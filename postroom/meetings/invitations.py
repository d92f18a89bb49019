"""Invitations by mail: one per person, each sent once, in the name of the customer whose list has the person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr
from typing import Any

from postroom.changes.model import Change
from postroom.delivery import aws
from postroom.delivery.asking import asked
from postroom.delivery.customer import Customer
from postroom.delivery.notice import Notice
from postroom.delivery.outgoing import Outgoing
from postroom.delivery.recipients import PAGE, Page, Recipient, only, recipients
from postroom.delivery.report import Report, enter
from postroom.delivery.send import Delivering
from postroom.delivery.writing import Appointment, News, render
from postroom.ledger import Book
from postroom.meetings.attendees import TOPIC
from postroom.meetings.ics import Method, calendar
from postroom.meetings.meeting import Meeting


def notice_of(change: Change, customer: Customer, version: int, sequence: int, method: Method) -> Notice:
    """What makes an invitation the same invitation: the meeting's sequence, not the change's status."""
    status = f"meeting-{sequence}" if method == "REQUEST" else f"meeting-off-{sequence}"
    return Notice(change.change_id, version, status, customer, TOPIC, "meeting")


class Invitations(Outgoing):
    """A raw mail for each person, with the calendar file that names this person alone."""

    def __init__(self, notice: Notice, change: Change, meeting: Meeting, *, method: Method, sequence: int) -> None:
        self._words = words(change, meeting, notice.customer, method, sequence)
        super().__init__(notice, *self._words)
        self._meeting, self.method, self._sequence, self._stamp = meeting, method, sequence, change.modified_at
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
        return {"Raw": {"Data": mail(self._customer, address, *self._words, file, self.method)}}


def mail(customer: Customer, to: str, subject: str, text: str, html: str, file: bytes, method: Method) -> bytes:
    """multipart/alternative, the calendar last: what Outlook and others take for an invitation."""
    message = EmailMessage(policy=SMTP)
    name, address = parseaddr(customer.sender)
    message["From"] = Address(name or customer.name, addr_spec=address)
    message["To"] = to
    if customer.reply_to:
        message["Reply-To"] = customer.reply_to
    message["Subject"] = subject
    # quoted-printable, and never base64: SES has to find the place of the unsubscribe link, which has a line of its own
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    message.add_alternative(
        file, maintype="text", subtype="calendar", cte="base64", params={"method": method, "charset": "UTF-8"}
    )
    return bytes(message)


def words(change: Change, meeting: Meeting, customer: Customer, method: Method, sequence: int) -> tuple[str, str, str]:
    """Subject, plain text and HTML, from the same templates as the preview."""
    news: News = "Cancelled" if method == "CANCEL" else "Updated" if sequence > 0 else "Invitation"
    told = change.as_json()
    if news == "Cancelled":  # in the words that people know: the change may say others, not meant for them, by now
        told = {"changeId": change.change_id, "version": change.version, "changeMetadata": {"title": meeting.title}}
    appointment = Appointment(meeting.title, meeting.start, meeting.end, meeting.location, news=news)
    return render("meeting", told, customer, appointment)


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
    outgoing = await asked(written)
    pages = _pages(addresses)
    if outgoing.method == "CANCEL":
        ses = await asked(aws.reading, notice.customer)
        pages = only(recipients(ses, notice.customer, TOPIC), {address.lower() for address in addresses})
    return await Delivering(book, notice, outgoing, check).tell(pages)


async def _pages(addresses: Sequence[str]) -> AsyncIterator[Page]:
    for at in range(0, len(addresses), PAGE):
        yield Page([Recipient(address) for address in addresses[at : at + PAGE]])
