"""Letters for trying things out, and what a receiving host writes on top of them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime

from postroom.errors import BadInput
from postroom.mail import fields, people
from postroom.mail.words import one_line
from postroom.mail.writing import Enclosure, address_of, dated, encoded, mailbox, whole

VERDICTS = {"spf": "pass", "dkim": "pass", "dmarc": "pass", "spam": "pass", "virus": "pass"}
_ENVELOPE_LINES = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n|>?From [^\n]*\n)+")


def new_id() -> str:
    """A name for a stored mail, as SES would give it."""
    return uuid.uuid4().hex


def draft(
    *,
    sender: str,
    to: Sequence[str],
    subject: str,
    text: str = "",
    attachments: Sequence[Enclosure] = (),
    html: str | None = None,
    in_reply_to: str | None = None,
    now: datetime | None = None,
) -> bytes:
    """A raw mail as a person's mail program would write it."""
    if not to:
        raise BadInput("a mail needs somebody to go to")
    lines = [
        f"From: {mailbox(sender)}",
        "To: " + ",\r\n ".join(mailbox(one) for one in to),
        encoded("Subject", subject),
        *dated(address_of(sender).rpartition("@")[2], now),
    ]
    if in_reply_to:
        earlier = re.sub(r"[^!-~]|[<>]", "", in_reply_to)[:900]
        lines += [f"In-Reply-To: <{earlier}>", f"References: <{earlier}>"]
    return whole(lines, text, html, attachments)


def verdicts_of(told: Iterable[str]) -> dict[str, str]:
    """All verdicts, pass unless told otherwise by words such as `dmarc=fail`."""
    found = dict(VERDICTS)
    for item in told:
        name, equals, value = item.strip().lower().partition("=")
        if not equals or name not in VERDICTS or not re.fullmatch(r"[a-z_]{2,30}", value):
            raise BadInput(f"verdict {item[:60]!r}: wanted one of {', '.join(VERDICTS)}, as in dmarc=fail")
        found[name] = value
    return found


def incoming(
    raw: bytes,
    *,
    message_id: str,
    recipient: str | None = None,
    verdicts: Mapping[str, str] | None = None,
    region: str = "eu-west-1",
    receiving_host: str = "amazonses.com",
    now: datetime | None = None,
) -> bytes:
    """The mail as SES would store it: its own lines on top, Date and Message-ID where they are missing.

    The recipient is the one told, else the first in the mail's own To.
    """
    said = {**VERDICTS, **(verdicts or {})}
    raw = _ENVELOPE_LINES.sub(b"", raw)
    header, _ = fields.split(raw, 0, len(raw))
    who = people.read(header)
    sender = _writable(who.sender) or "unknown@example.invalid"
    recipient = address_of(recipient) if recipient else next(filter(None, map(_writable, who.to)), None)
    domain = sender.rpartition("@")[2].lower()
    at = format_datetime(now or datetime.now(UTC))
    key = re.sub(r"[^A-Za-z0-9._-]", "", message_id)[:100]
    for_whom = f"\r\n for {recipient}" if recipient else ""
    top = [
        f"Return-Path: <{sender}>",
        f"Received: from mail.{domain} (mail.{domain} [192.0.2.1])\r\n by inbound-smtp.{region}.amazonaws.com"
        f" with SMTP id {key}{for_whom};\r\n {at} (UTC)",
        f"X-SES-Spam-Verdict: {said['spam'].upper()}",
        f"X-SES-Virus-Verdict: {said['virus'].upper()}",
        f"Received-SPF: {said['spf']} (spfCheck: domain of {domain}) client-ip=192.0.2.1; envelope-from={sender};",
        f"Authentication-Results: {one_line(receiving_host)};\r\n"
        f" spf={said['spf']} (spfCheck: domain of {domain}) client-ip=192.0.2.1; envelope-from={sender};"
        f" helo=mail.{domain};\r\n dkim={said['dkim']} header.i=@{domain};\r\n"
        f" dmarc={said['dmarc']} header.from={domain};",
    ]
    if not header.first("date"):
        top.append(f"Date: {at}")
    if not header.first("message-id"):
        top.append(f"Message-ID: <{key}@{domain}>")
    return "\r\n".join(top).encode("ascii") + b"\r\n" + raw


def _writable(address: str | None) -> str | None:
    """The address in a form that may stand in a header; None when there is none."""
    try:
        return address_of(address) if address else None
    except BadInput:
        return None
