"""The complete mail that SES would send, built from a SendEmail request, and what the outbox shows of it."""

from __future__ import annotations

import base64
import binascii
import email.policy
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import format_datetime, getaddresses, parseaddr
from typing import Any

from deployments.local_aws.ses.wire import Refused

PLACEHOLDER = "{{amazonSESUnsubscribeUrl}}"
_POLICY = email.policy.SMTP.clone(max_line_length=998)


class Letter:
    """A mail on its way: who sends it, to whom, and its bytes as a message object."""

    def __init__(self, sender: str, recipients: list[str], message: EmailMessage, original: bytes = b"") -> None:
        self.sender, self.recipients, self.message, self.original = sender, recipients, message, original

    def headers(self) -> list[tuple[str, str]]:
        """All headers, decoded where they can be: a raw mail may hold what Python's parser refuses."""
        found = []
        for name, value in self.message.raw_items():
            try:
                found.append((name, str(_POLICY.header_fetch_parse(name, value))))
            except Exception:
                found.append((name, str(value)))
        return found

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers() if key.lower() == name.lower()), "")

    def offer_unsubscribe(self, url: str) -> bool:
        """Puts the unsubscribe link in, where the mail asks for it; False when it does not."""
        found = False
        for part in self.message.walk():
            if part.get_content_type() in ("text/plain", "text/html") and PLACEHOLDER in (text := _text(part)):
                found = True
                part.set_content(text.replace(PLACEHOLDER, url), subtype=part.get_content_subtype())  # type: ignore[attr-defined]
        if found:
            for name in ("List-Unsubscribe", "List-Unsubscribe-Post"):
                del self.message[name]
            self.message["List-Unsubscribe"] = f"<{url}>"
            self.message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        return found

    def content(self) -> bytes:
        try:
            return self.message.as_bytes(policy=_POLICY)
        except Exception:
            if not self.original:
                raise
            return self.original  # raw, and not to be written anew: it goes as it came

    def shown(self) -> dict[str, Any]:
        """What a reader of the outbox sees."""
        bodies: dict[str, str | None] = {"text": None, "html": None}
        names = []
        for part in self.message.walk():
            if part.is_multipart():
                continue
            kind = {"text/plain": "text", "text/html": "html"}.get(part.get_content_type())
            if part.get_content_disposition() == "attachment" or kind is None or bodies[kind] is not None:
                names.append(part.get_filename() or "unnamed")
            else:
                bodies[kind] = _text(part).replace("\r\n", "\n")
        return {
            "from": self.sender,
            "subject": self.header("Subject"),
            "headers": dict(self.headers()),
            **bodies,
            "attachments": names,
        }


def written(given: dict[str, Any]) -> Letter:
    """The letter of a SendEmail request."""
    content = given.get("Content") or {}
    kinds = [kind for kind in ("Simple", "Raw", "Template") if content.get(kind)]
    if len(kinds) != 1:
        raise Refused("BadRequestException", "Content must have exactly one of Simple, Raw and Template.")
    if kinds == ["Template"]:
        raise Refused("BadRequestException", "The local SES sends Simple and Raw content; templates are ours.")
    return _simple(given, content["Simple"]) if kinds == ["Simple"] else _raw(given, content["Raw"])


def _simple(given: dict[str, Any], simple: dict[str, Any]) -> Letter:
    sender = given.get("FromEmailAddress")
    if not sender:
        raise Refused("BadRequestException", "FromEmailAddress must be given.")
    to = _destination(given)
    if not any(to.values()):
        raise Refused("BadRequestException", "Destination must have at least one address.")
    body = simple.get("Body") or {}
    text, html = (body.get(kind, {}).get("Data") for kind in ("Text", "Html"))
    if text is None and html is None:
        raise Refused("BadRequestException", "Body must have Text or Html.")
    message = EmailMessage(policy=_POLICY)
    try:
        message["From"] = sender
        for name, addresses in (("To", to["ToAddresses"]), ("Cc", to["CcAddresses"])):
            if addresses:
                message[name] = ", ".join(addresses)
        if given.get("ReplyToAddresses"):
            message["Reply-To"] = ", ".join(given["ReplyToAddresses"])
        message["Subject"] = simple.get("Subject", {}).get("Data", "")
        for header in simple.get("Headers") or []:
            message[header["Name"]] = header["Value"]
    except (ValueError, KeyError) as error:  # a line break in a header, or one given twice
        raise Refused("BadRequestException", f"Header: {error}") from None
    if text is not None:
        message.set_content(text)
    if html is not None:
        message.add_alternative(html, subtype="html") if text is not None else message.set_content(html, subtype="html")
    for attachment in simple.get("Attachments") or []:
        _attach(message, attachment)
    return Letter(sender, [address for group in to.values() for address in group], message)


def _attach(message: EmailMessage, attachment: dict[str, Any]) -> None:
    maintype, _, subtype = (attachment.get("ContentType") or "application/octet-stream").partition("/")
    try:
        content = base64.b64decode(attachment.get("RawContent") or "", validate=True)
    except binascii.Error:
        raise Refused("BadRequestException", "RawContent isn't base64.") from None
    message.add_attachment(
        content,
        maintype=maintype,
        subtype=re.sub(r";.*", "", subtype) or "octet-stream",
        filename=attachment.get("FileName"),
        disposition=(attachment.get("ContentDisposition") or "ATTACHMENT").lower(),
        cid=attachment.get("ContentId"),
    )


def _raw(given: dict[str, Any], raw: dict[str, Any]) -> Letter:
    try:
        content = base64.b64decode(raw.get("Data") or "", validate=True)
    except binascii.Error:
        raise Refused("BadRequestException", "Data isn't base64.") from None
    message = BytesParser(policy=_POLICY).parsebytes(content)
    letter = Letter("", [], message, content)
    sender = given.get("FromEmailAddress") or letter.header("From")
    if not sender:
        raise Refused("BadRequestException", "The mail has no From header.")
    recipients = [address for group in _destination(given).values() for address in group]
    if not recipients:
        named = [value for name, value in letter.headers() if name.lower() in ("to", "cc", "bcc")]
        recipients = [address for _, address in getaddresses(named) if address]
    if not recipients:
        raise Refused("BadRequestException", "The mail has no recipients.")
    del message["Bcc"]
    letter.sender, letter.recipients = sender, recipients
    return letter


def finish(letter: Letter, message_id: str, region: str) -> None:
    """The headers SES itself writes."""
    del letter.message["Message-ID"]
    letter.message["Message-ID"] = f"<{message_id}@{region}.amazonses.com>"
    if "Date" not in letter.message:
        letter.message["Date"] = format_datetime(datetime.now(UTC))
    if "MIME-Version" not in letter.message:
        letter.message["MIME-Version"] = "1.0"


def bare(address: str) -> str:
    """The address without a display name; refused when it is none."""
    found = parseaddr(address)[1]
    local, _, domain = found.rpartition("@")
    if not local or not domain or any(character.isspace() for character in found):
        raise Refused("BadRequestException", f"Invalid email address<{address}>.")
    return found


def _destination(given: dict[str, Any]) -> dict[str, list[str]]:
    destination = given.get("Destination") or {}
    return {name: list(destination.get(name) or []) for name in ("ToAddresses", "CcAddresses", "BccAddresses")}


def _text(part: Any) -> str:
    content = part.get_payload(decode=True) or b""
    try:
        return str(content.decode(part.get_content_charset() or "utf-8", "replace"))
    except LookupError:
        return str(content.decode("utf-8", "replace"))
