"""What SES tells of our mails later: taken, delivered, bounced, complained of. It settles the book.

    Send, Delivery                     sending, unknown ─▶ sent
    Bounce (for good), Reject          sent, unknown    ─▶ failed, with the reason
    Bounce (general, for now)          noted only: an out-of-office reply looks the same
    Complaint                          noted
Who bounced for good or complained is put on the account's suppression list, so that nobody writes again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from postroom.aws.clients import client
from postroom.delivery import aws
from postroom.delivery.outgoing import TAG
from postroom.errors import Unparsable
from postroom.ledger import Book
from postroom.ledger.book import open_book
from postroom.ledger.deliveries import Delivery

log = logging.getLogger("postroom.delivery")
_SUPPRESSED = ("Suppressed", "OnAccountSuppressionList", "OnTenantSuppressionList")
_FOR_NOW = {"MailboxFull": "mailbox full", "MessageTooLarge": "message too large"} | {
    "ContentRejected": "content rejected",
    "AttachmentRejected": "attachment rejected",
}


class HasBody(Protocol):
    """A received message."""

    @property
    def body(self) -> str: ...


@dataclass(frozen=True)
class Told:
    """One event, understood: what becomes of the delivery, and whether the address is to be suppressed."""

    tag: str
    ses_id: str
    kind: str
    state: str | None = None
    reason: str | None = None
    suppress: str | None = None  # BOUNCE or COMPLAINT


async def act(message: HasBody) -> None:
    """Settles what the message tells; what is about no mail of ours is nobody's business here."""
    await asyncio.to_thread(settle, open_book(), message.body)


def settle(book: Book, body: str) -> Delivery | None:
    """The delivery that the event was about, as the book has it now; None when it was about none of ours."""
    told = understand(event_of(body))
    if told is None:
        return None
    # Not every kind says something about the state, but all of them must find their delivery.
    delivery = book.deliveries.settle(told.tag, told.state or "sent", ses_id=told.ses_id, reason=told.reason)
    if delivery is None:
        log.info("SES event %s is about a delivery that is not in this book", told.kind)
        return None
    if told.kind in ("Delivery", "Complaint", "Bounce"):
        book.deliveries.note(delivery.batch, delivery.recipient, **{f"{told.kind.lower()}_at": book.clock.now_ms()})
    if told.suppress:
        _suppress(delivery, told.suppress)
    return delivery


def event_of(body: str) -> Mapping[str, Any]:
    """The event in an SQS body: wrapped by SNS, or as SES wrote it."""
    try:
        document = json.loads(body)
        if isinstance(document, dict) and document.get("Type") == "Notification":
            document = json.loads(document["Message"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unparsable(f"an SES event could not be read: {error}") from None
    if not isinstance(document, dict):
        raise Unparsable("an SES event is not a JSON object")
    return document


def understand(event: Mapping[str, Any]) -> Told | None:
    """What an event means for us; None when the mail does not carry our tag."""
    mail = event.get("mail")
    tags = mail.get("tags") if isinstance(mail, dict) else None
    values = tags.get(TAG) if isinstance(tags, dict) else None
    if not isinstance(mail, dict) or not values:
        return None
    tag = str(values[0] if isinstance(values, list) else values)
    kind = str(event.get("eventType") or event.get("notificationType") or "")
    ses_id = str(mail.get("messageId") or "")
    if kind == "Bounce":
        return _bounce(tag, ses_id, _part(event, "bounce"))
    if kind == "Complaint":
        subtype = _part(event, "complaint").get("complaintSubType")
        if subtype in _SUPPRESSED:
            return Told(tag, ses_id, kind, "failed", "suppressed: a complaint")
        return Told(tag, ses_id, kind, suppress="COMPLAINT")
    if kind == "Reject":
        return Told(tag, ses_id, kind, "failed", f"rejected by SES: {_part(event, 'reject').get('reason', '')}")
    return Told(tag, ses_id, kind, "sent") if kind in ("Send", "Delivery") else None


def _bounce(tag: str, ses_id: str, bounce: Mapping[str, Any]) -> Told:
    kind, subtype = bounce.get("bounceType"), str(bounce.get("bounceSubType", ""))
    people = bounce.get("bouncedRecipients")
    first = people[0] if isinstance(people, list) and people and isinstance(people[0], dict) else {}
    why = str(first.get("diagnosticCode") or "")[:300]
    if kind == "Permanent":
        if subtype in _SUPPRESSED:
            return Told(tag, ses_id, "Bounce", "failed", "suppressed: an earlier bounce")
        if subtype == "UnsubscribedRecipient":
            return Told(tag, ses_id, "Bounce", "failed", "unsubscribed")
        said = f"wrong address: {why}" if why else "wrong address"
        return Told(tag, ses_id, "Bounce", "failed", said, suppress="BOUNCE")
    if subtype in _FOR_NOW:
        return Told(tag, ses_id, "Bounce", "failed", f"{_FOR_NOW[subtype]}: {why}" if why else _FOR_NOW[subtype])
    return Told(tag, ses_id, "Bounce")


def _suppress(delivery: Delivery, reason: str) -> None:
    """Into the list of the account that sent it: by the customer's role, or ours when it was our own mail."""
    role, region = delivery.detail.get("role"), delivery.detail.get("region")
    if role and region:
        ses = aws.by_role(str(delivery.detail.get("customer", "")), str(role), str(region))
    else:
        ses = client("sesv2")
    ses.put_suppressed_destination(EmailAddress=delivery.recipient, Reason=reason)


def _part(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = event.get(name)
    return found if isinstance(found, dict) else {}
