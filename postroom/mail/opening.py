"""Opening a letter: raw bytes in, a Letter out. It raises only for the limits and for bytes that are no mail."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from postroom.errors import Refused, Unparsable
from postroom.mail import contents, fields, ids, instruction, names, noise, people, sniff, verdicts
from postroom.mail.fields import Fields
from postroom.mail.letter import Attachment, Letter
from postroom.mail.parts import Cutter, Part, described
from postroom.mail.words import header_text, unfold

MAX_BYTES = 40 * 1024 * 1024
MAX_ATTACHMENTS = 50
# many a text file begins with `word:`; a mail has at least one of these
_MAIL_FIELD = re.compile(
    r"(?:from|to|cc|bcc|subject|date|sender|reply-to|message-id|in-reply-to|references|received|return-path|"
    r"mime-version|delivered-to|comments|keywords|auto-submitted|precedence|user-agent|importance|priority|"
    r"authentication-results|dkim-signature|(?:content|list|resent|arc|thread|x)-[!-9;-~]+)",
    re.I,
)
_ENVELOPE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n)*")


def parse(
    raw: bytes,
    *,
    message_id: str | None = None,
    max_bytes: int = MAX_BYTES,
    max_attachments: int = MAX_ATTACHMENTS,
    ours: str | None = None,
    receiving_host: str = verdicts.SES,
) -> Letter:
    """The letter in these bytes.

    `message_id` is the name it was stored under, where there is one; `ours` is the address we send from.
    Raises Refused when a limit is broken and Unparsable when the bytes are no mail.
    """
    warnings: list[str] = []
    raw, start = _begin(raw, max_bytes, warnings)
    cutter = Cutter()
    root = cutter.cut(raw, start, len(raw))
    _demand_mail(root.fields, raw)
    found = contents.gather(root, cutter)
    warnings += cutter.warnings
    written = _outside(raw, root, message_id, ours, receiving_host, warnings)
    text = found.text
    attachments = _named(found.attachments, max_attachments)
    if instruction.was_cut(text):
        warnings.append(f"the text is longer than {instruction.MAX_BYTES // 1000} KB; its beginning is carried out")
    if not text.strip() and not attachments:
        warnings.append("the mail is empty")
    all_warnings = found.warnings  # decoding an attachment later adds to the same list
    all_warnings[:0] = warnings
    return replace(
        written,
        text=text,
        instruction=instruction.of(text),
        forwarded=instruction.forwarded(text, written.subject),
        html=found.html,
        attachments=attachments,
        _warnings=all_warnings,
    )


def outside(
    raw: bytes,
    *,
    message_id: str | None = None,
    max_bytes: int = MAX_BYTES,
    ours: str | None = None,
    receiving_host: str = verdicts.SES,
) -> Letter:
    """The letter unopened: all that its header says, and neither text nor attachments.

    It tells who may speak before a stranger's body costs anything. Raises as `parse` does.
    """
    warnings: list[str] = []
    raw, start = _begin(raw, max_bytes, warnings)
    header, body = fields.split(raw, start, len(raw))
    _demand_mail(header, raw)
    root = described(header, "text/plain", raw, body, len(raw))
    return _outside(raw, root, message_id, ours, receiving_host, warnings)


def _begin(raw: bytes, max_bytes: int, warnings: list[str]) -> tuple[bytes, int]:
    """The bytes with line ends of today, and where the header begins; Refused when there are too many."""
    if len(raw) > max_bytes:
        raise Refused(
            f"the mail has {len(raw)} bytes; the limit is {max_bytes} (POSTROOM_MAIL_MAX_BYTES)",
            safe="The mail is too large.",
            limit="mail_max_bytes",
        )
    if b"\n" not in raw[:65536] and b"\r" in raw[:65536]:
        raw = raw.replace(b"\r", b"\n")
        warnings.append("the mail has line ends of an old kind")
    return raw, m.end() if (m := _ENVELOPE.match(raw)) else 0


def _demand_mail(header: Fields, raw: bytes) -> None:
    if not any(_MAIL_FIELD.fullmatch(name) for name, _ in header.items):
        raise Unparsable("this is not a mail: " + ("it is empty" if not raw.strip() else "it has no header of one"))


def _outside(
    raw: bytes, root: Part, message_id: str | None, ours: str | None, receiving_host: str, warnings: list[str]
) -> Letter:
    who = people.read(root.fields)
    warnings += who.warnings
    subject = _subject(root.fields, warnings)
    own_id = ids.own(root.fields.text("message-id"))
    if own_id is None:
        warnings.append("no Message-ID")
    known_as = message_id or own_id or f"{hashlib.sha256(raw).hexdigest()[:32]}@no-message-id.invalid"
    return Letter(
        message_id=known_as,
        thread_id=_thread(root.fields, own_id or known_as),
        project=who.project,
        user=who.user,
        from_=who.sender,
        from_name=who.sender_name,
        to=who.to,
        cc=who.cc,
        subject=subject,
        date=who.date,
        text="",
        instruction="",
        html=None,
        attachments=[],
        noise=noise.reason(root.fields, _declared(root), who.sender, subject, ours),
        authentication=verdicts.read(root.fields.items, receiving_host).summary(),
        header=root.fields.items,
        from_problem=who.sender_problem,
        reached=who.reached,
        _warnings=warnings,
    )


def _declared(root: Part) -> str:
    return "multipart/report" if "multipart/report" in root.fields.text("content-type").lower() else root.content_type


def _subject(header: Fields, warnings: list[str]) -> str:
    values = header.all("subject")
    if len(values) > 1:
        warnings.append("more than one Subject; the first was taken")
    return header_text(values[0]) if values else ""


def _thread(header: Fields, own: str) -> str:
    """The same for every mail of a conversation: a hash of the id of its first mail."""
    oldest = own
    for name in ("references", "in-reply-to"):
        if found := ids.chain(" ".join(unfold(v) for v in header.all(name))):
            oldest = found[0]
            break
    return hashlib.sha256(oldest.encode()).hexdigest()[:32]


def _named(attachments: list[Attachment], limit: int) -> list[Attachment]:
    if len(attachments) > limit:
        raise Refused(
            f"the mail has {len(attachments)} attachments; the limit is {limit} (POSTROOM_MAIL_MAX_ATTACHMENTS)",
            safe="The mail has too many attachments.",
            limit="mail_max_attachments",
        )
    chosen = []
    for number, attachment in enumerate(attachments, 1):
        name = attachment.original_filename
        if not names.safe(name, ""):
            kind = attachment.content_type
            ending = sniff.EXTENSIONS.get(kind, "bin")
            stem = "message" if kind == "message/rfc822" else "invite" if kind == "text/calendar" else "attachment"
            stem = "image" if kind.startswith("image/") else stem
            chosen.append(f"{stem}-{number}.{ending}")
        else:
            chosen.append(names.safe(name, ""))
    for attachment, name in zip(attachments, names.unique(chosen), strict=True):
        attachment.filename = name
    return attachments
