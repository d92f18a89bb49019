"""Who a letter is from, to whom, when, and by which address it reached us: mail-parser on a reduced header."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import mailparser

from postroom.mail.fields import Fields
from postroom.mail.words import decode_words, header_text, lowered, one_line, unfold

MAX_ADDRESSES = 500
_LOOSE = re.compile(r"[^\s<>()\[\]\\,;:\"@]{1,128}@[^\s<>()\[\]\\,;:\"@]{1,255}")
_SITE = re.compile(r"([a-z0-9][a-z0-9-]{0,62})\+([a-z0-9][a-z0-9-]{0,62})@[^@\s]+")
# only what mail-parser is asked for: it never sees the parts
_ASKED = ("from", "to", "cc")


@dataclass
class People:
    """The people and the time on the envelope."""

    sender: str | None = None
    sender_name: str = ""
    sender_problem: str | None = None
    to: list[str] = field(default_factory=list)
    cc: list[str] = field(default_factory=list)
    date: datetime | None = None
    project: str | None = None
    user: str | None = None
    reached: str | None = None  # the address of the site that the mail came to
    warnings: list[str] = field(default_factory=list)


def read(fields: Fields) -> People:
    """Everyone named in the header; what can't be read is a warning."""
    people = People()
    parsed = _parsed(fields, people)
    senders = _addresses(parsed, "from", fields, people)
    _choose_sender(people, senders, fields, parsed)
    people.to = list(dict.fromkeys(address for _, address in _addresses(parsed, "to", fields, people)))
    people.cc = list(dict.fromkeys(address for _, address in _addresses(parsed, "cc", fields, people)))
    people.date = _date(parsed, fields, people)
    reached = _reached(parsed)
    for address in ([reached] if reached else []) + people.to + people.cc:
        if match := _SITE.fullmatch(address.lower()):
            people.project, people.user, people.reached = match[1], match[2], address
            break
    return people


def _parsed(fields: Fields, people: People) -> Any:
    """mail-parser's view of the fields it is good at."""
    lines = []
    for name in _ASKED:
        values = fields.all(name)
        if values:
            # two To lines are one list; of two From lines the second is only evidence (see _choose_sender)
            joined = values[0] if name == "from" else ", ".join(values)
            lines.append(f"{name}: {one_line(unfold(joined))}")
    if date := fields.text("date"):
        lines.append(f"date: {one_line(date)}")
    if received := fields.text("received"):
        lines.append(f"received: {one_line(received)}")
    try:
        return mailparser.parse_from_string("\n".join(lines) + "\n\n")
    except Exception as error:
        people.warnings.append(f"the header could not be read as a whole ({type(error).__name__})")
        return None


def _addresses(parsed: Any, name: str, fields: Fields, people: People) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if parsed is not None:
        found = list(parsed.from_ if name == "from" else parsed.to if name == "to" else parsed.cc)
    clean = [(header_text(shown), _tidy(address)) for shown, address in found[:MAX_ADDRESSES] if "@" in address]
    if len(found) > MAX_ADDRESSES:
        people.warnings.append(f"more than {MAX_ADDRESSES} addresses in {name.capitalize()}; the rest was left out")
    raw = " ".join(unfold(value) for value in fields.all(name))
    if not clean and "@" in raw:
        # encoded as a whole, or not well formed: take what looks like an address
        shown = decode_words(raw)
        clean = [("", _tidy(match)) for match in _LOOSE.findall(shown)[:MAX_ADDRESSES]]
        if clean:
            people.warnings.append(f"{name.capitalize()} is not well formed; read as best it could be")
            if name == "from":
                people.sender_problem = "the From line is not well formed"
                angled = re.search(r"<([^<>@\s]+@[^<>@\s]+)>", shown)
                if angled:
                    before = one_line(shown[: angled.start()]).strip("\"' <")
                    clean = [(before, _tidy(angled[1]))]
    return clean


def _choose_sender(people: People, senders: list[tuple[str, str]], fields: Fields, parsed: Any) -> None:
    if senders:
        people.sender_name, people.sender = senders[0]
    count = len(fields.all("from"))
    if count > 1:
        people.sender_problem = "there is more than one From line"
        people.warnings.append("more than one From line; the first was taken, and none may be believed")
    elif fields.cut:
        people.sender_problem = "the header is too large to be read as a whole"
    elif len({address for _, address in senders}) > 1:
        people.sender_problem = people.sender_problem or "the From line names more than one sender"
        people.warnings.append("From names more than one sender; the first was taken")
    elif not senders:
        people.sender_problem = "there is no sender"
        people.warnings.append("no sender: From is missing" if not count else "no sender: From could not be read")
        raw = header_text(fields.first("from") or "")
        people.sender_name = raw[:200]
    elif any(d.get("header") == "from" for d in (parsed.address_header_defects if parsed is not None else ())):
        reasons = {d.get("reason") for d in parsed.address_header_defects if d.get("header") == "from"}
        if reasons - {"invalid-display-name", "overlong-encoded-word", "structural-recovery", "invalid-encoded-word"}:
            people.sender_problem = "the From line can be read in more than one way"
            people.warnings.append("From is not well formed")


def _tidy(address: str) -> str:
    """The bare address: domain in lower case, no control characters, nothing around it."""
    local, _, domain = one_line(address).replace(" ", "").rpartition("@")
    return f"{local}@{lowered(domain).rstrip('.')}"


def _reached(parsed: Any) -> str | None:
    """The address in the topmost Received line's `for`: the receiving host's own word."""
    lines = parsed.received if parsed is not None else []
    said = str(lines[0].get("for", "")) if lines else ""
    found = _LOOSE.search(said)
    return _tidy(found[0]) if found else None


def _date(parsed: Any, fields: Fields, people: People) -> datetime | None:
    raw = one_line(fields.text("date"))
    if not raw:
        people.warnings.append("no Date")
        return None
    value: datetime | None = parsed.date if parsed is not None else None
    if value is None:
        try:
            value = parsedate_to_datetime(raw)
        except (ValueError, TypeError, IndexError, OverflowError):
            people.warnings.append(f"Date could not be read: {raw[:60]!r}")
            return None
    try:
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError):
        people.warnings.append(f"Date could not be read: {raw[:60]!r}")
        return None
