"""Raw mails written: header lines, addresses, bodies.

Header lines are written here, not by the email package: it breaks long ids in References, and every value
that comes from outside passes one place where line breaks and control characters are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.header import Header
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from postroom.errors import BadInput
from postroom.mail import names, sniff
from postroom.mail.trust import canonical_domain
from postroom.mail.words import one_line

MAX_SUBJECT = 250
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_ATOM = re.compile(r"[A-Za-z0-9 !#$%&'*+/=?^_`{|}~-]*")


@dataclass(frozen=True)
class Enclosure:
    """A file to send along; with a content id it is shown inside the HTML as `cid:…`."""

    name: str
    content: bytes
    content_id: str | None = None


def address_of(value: str) -> str:
    """The bare address in `Name <address>` or in an address; BadInput when it is none."""
    text = value.strip()
    angled = re.fullmatch(r"[^<>\r\n]*<([^<>\s]+)>", text)
    local, _, domain = (angled[1] if angled else text).rpartition("@")
    address = f"{local}@{canonical_domain(domain)}"
    if not _ADDRESS.fullmatch(address):
        raise BadInput(f"{value[:80]!r} is not a mail address")
    return address


def mailbox(value: str, name: str = "") -> str:
    """`Name <address>` for a header, the name encoded where it must be."""
    address = address_of(value)
    shown = one_line(name or (value.partition("<")[0] if "<" in value else "")).strip('" ')[:120]
    if not shown:
        return address
    if not shown.isascii() or "=?" in shown:
        return f"{Header(shown, 'utf-8').encode(linesep=chr(13) + chr(10))} <{address}>"
    if not _ATOM.fullmatch(shown):
        shown = '"' + re.sub(r'(["\\])', r"\\\1", shown) + '"'
    return f"{shown} <{address}>"


def encoded(name: str, value: str) -> str:
    """A header line of free text."""
    text = one_line(value)[:MAX_SUBJECT]
    if text.isascii() and "=?" not in text:
        return f"{name}: {text}"
    return f"{name}: " + Header(text, "utf-8", header_name=name).encode(linesep="\r\n")


def dated(domain: str, now: datetime | None = None) -> list[str]:
    """Date and a new Message-ID."""
    when = format_datetime(now or datetime.now(UTC))
    return [f"Date: {when}", f"Message-ID: {make_msgid(domain=domain)}"]


def whole(lines: list[str], text: str, html: str | None = None, enclosures: Sequence[Enclosure] = ()) -> bytes:
    """The raw mail with these header lines, this text, and these files."""
    return "\r\n".join(lines).encode("ascii") + b"\r\n" + _body(text, html, enclosures).as_bytes()


def _body(text: str, html: str | None, enclosures: Sequence[Enclosure]) -> EmailMessage:
    message = EmailMessage(policy=policy.SMTP)
    message.set_content(_plain(text), charset="utf-8")
    if html is not None:
        message.add_alternative(_plain(html), subtype="html", charset="utf-8")
    for item in enclosures:
        main, _, sub = sniff.content_type(item.content, item.name).partition("/")
        name = names.safe(item.name, "attachment")
        if main in ("message", "multipart"):
            main, sub = "application", "octet-stream"
        rich = message.get_body(("html",)) if item.content_id and html is not None else None
        if isinstance(rich, EmailMessage):
            cid = re.sub(r"[^A-Za-z0-9.@_-]", "", item.content_id or "")
            rich.add_related(
                item.content, maintype=main, subtype=sub, cid=f"<{cid}>", filename=name, disposition="inline"
            )
        else:
            message.add_attachment(item.content, maintype=main, subtype=sub, filename=name)
    return message


def _plain(text: str) -> str:
    """Text that can be encoded: line ends of one kind, no NUL, no lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-8", "replace").decode("utf-8")
