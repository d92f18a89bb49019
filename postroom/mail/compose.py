"""Our answers: in the thread, as text and HTML, marked so that no machine answers them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from postroom.errors import BadInput, Refused
from postroom.mail import ids
from postroom.mail.letter import Letter
from postroom.mail.noise import LOOP_GUARD
from postroom.mail.words import one_line
from postroom.mail.writing import Enclosure, address_of, dated, encoded, mailbox, whole

MAX_REFERENCES = 20
_WRITABLE = re.compile(r"[!-;=?-~]{1,900}")
_ANSWERED = re.compile(r"^\s*(?:(?:re|aw|antw|sv|vs|odp|rif|res|rép|ynt|atb|bls|ref)(?:\s*\[\d+\])?\s*[:：]\s*)+", re.I)


@dataclass(frozen=True)
class Envelope:
    """All an answer needs to know of the mail it answers; small enough to keep in the book."""

    to: str
    subject: str
    mail_id: str = ""  # the Message-ID header, without brackets
    references: tuple[str, ...] = ()  # of the conversation so far, oldest first, without brackets
    name: str = ""
    reply_to: str = ""  # where an answer to our answer shall go: the address of the site

    @classmethod
    def of(cls, letter: Letter) -> Envelope:
        """The envelope for an answer to that letter. Mail nobody wrote is never answered: Refused."""
        if letter.noise:
            raise Refused(f"this mail is never answered: {letter.noise}")
        if letter.from_problem or not letter.from_:
            raise Refused(f"there is nobody to answer to: {letter.from_problem}")
        own = ids.own(" ".join(letter.values("Message-ID")[:1])) or ""
        return cls(letter.from_, letter.subject, own, references(letter), letter.from_name, letter.reached or "")


def references(letter: Letter) -> tuple[str, ...]:
    """The ids of the conversation before that letter, oldest first; the oldest is always kept."""
    found: list[str] = []
    for name in ("References", "In-Reply-To"):
        found = found or ids.chain(" ".join(letter.values(name)))
    return _bounded(found)


def _bounded(ids: Sequence[str]) -> tuple[str, ...]:
    chain = list(dict.fromkeys(item for item in ids if _WRITABLE.fullmatch(item)))
    return tuple(chain if len(chain) <= MAX_REFERENCES else [chain[0], *chain[-(MAX_REFERENCES - 1) :]])


def _reply_to(address: str) -> list[str]:
    """The header line, if there is such an address and it can be written: an answer without it is better than none."""
    try:
        return [f"Reply-To: {address_of(address)}"] if address else []
    except BadInput:
        return []


def answer_subject(subject: str) -> str:
    """The subject of an answer: `Re: ` once, however often it was there."""
    return "Re: " + (_ANSWERED.sub("", one_line(subject)).strip() or "(no subject)")


def answer(
    envelope: Envelope,
    *,
    sender: str,
    text: str,
    html: str | None = None,
    enclosures: Sequence[Enclosure] = (),
    now: datetime | None = None,
) -> bytes:
    """A raw mail to the sender of a letter, in its thread."""
    lines = [
        f"From: {mailbox(sender)}",
        f"To: {mailbox(envelope.to, envelope.name)}",
        *_reply_to(envelope.reply_to),
        encoded("Subject", answer_subject(envelope.subject)),
        *dated(address_of(sender).rpartition("@")[2], now),
    ]
    own = _bounded([envelope.mail_id])
    lines += [f"In-Reply-To: <{mail_id}>" for mail_id in own]
    if chain := _bounded([*envelope.references, *own]):
        lines.append("References: " + "\r\n ".join(f"<{mail_id}>" for mail_id in chain))
    lines += ["Auto-Submitted: auto-replied", f"{LOOP_GUARD}: {address_of(sender)}", "X-Auto-Response-Suppress: All"]
    return whole(lines, text, html, enclosures)
