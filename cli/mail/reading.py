"""`postroom mail parse`: raw mails read, no service needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import say
from postroom.errors import BadInput, PostroomError, sanitise
from postroom.mail import Letter, parse
from postroom.settings import settings


def parse_files(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Raw mails; - for standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line for each file.")] = False,
) -> None:
    """Read raw mails and print what is in them. Needs no running service."""
    worst = 0
    for name in files:
        try:
            letter = _open(name)
            shown: dict[str, Any] = letter.as_json()
        except Exception as error:
            known = error if isinstance(error, PostroomError) else None
            worst = max(worst, known.exit_code if known else 70)
            said = str(known) if known else f"this is a fault in postroom: {type(error).__name__}: {error}"
            if as_json:
                say.line({"file": name, "error": sanitise(said)})
            say.problem(f"{name}: {said}")
            continue
        if as_json:
            say.line(shown)
        else:
            say.text(_readable(name, shown))
    if worst:
        sys.exit(worst)


def _open(name: str) -> Letter:
    config = settings()
    try:
        raw = sys.stdin.buffer.read(config.mail_max_bytes + 1) if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise BadInput(f"can't be read: {error.strerror}") from None
    return parse(
        raw,
        max_bytes=config.mail_max_bytes,
        max_attachments=config.mail_max_attachments,
        ours=config.mail_from,
        receiving_host=config.receiving_host,
    )


def _readable(name: str, letter: dict[str, Any]) -> str:
    """The letter for a person at a terminal: no control characters of the sender's choosing."""
    site = f"{letter['project']}/{letter['user']}" if letter["project"] else "none"
    verdicts = " ".join(f"{key}={value}" for key, value in letter["authentication"].items() if value)
    lines = [
        f"== {name}",
        f"From:     {letter['from_name']} <{letter['from'] or '?'}>",
        f"To:       {', '.join(letter['to'] + letter['cc'])}",
        f"Subject:  {letter['subject']}",
        f"Date:     {letter['date'] or '?'}",
        f"Site:     {site}",
        f"Verdicts: {verdicts or 'none'}" + (" (automatic mail)" if letter["auto_reply"] else ""),
        "",
        letter["instruction"],
        "",
        *(f"+ {a['filename']}  {a['content_type']}  {a['size']} bytes" for a in letter["attachments"]),
        *(f"! {warning}" for warning in letter["warnings"]),
    ]
    return "".join(c for c in "\n".join(lines) if c in "\n\t" or c.isprintable())
