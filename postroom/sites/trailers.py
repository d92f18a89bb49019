"""The message of a commit on main: what was done, and which instructions it carries out.

Only the last paragraph counts, and only we write it: a sentence of a mail that looks like
a trailer is quoted, so nobody can claim another's instruction as done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from postroom import message_ids
from postroom.errors import BadInput

INSTRUCTION, UNDOES = "Instruction", "Undoes"
_LIKE_A_TRAILER = re.compile(r"(?i)^\s*[A-Za-z][A-Za-z0-9-]*\s*:")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


def compose(subject: str, body: str, instructions: Sequence[str], *, undoes: str | None = None) -> str:
    """A commit message with one trailer per instruction."""
    for instruction in instructions:
        if not message_ids.fits(instruction):
            raise BadInput(f"{instruction[:200]!r} can't be the id of an instruction: {message_ids.WANTED}")
    title = " ".join(_CONTROL.sub(" ", subject).split())[:72].strip() or "Edit"
    lines = [_CONTROL.sub(" ", line).rstrip() for line in body[:20_000].splitlines()]
    told = "\n".join(f"> {line}" if _LIKE_A_TRAILER.match(line) else line for line in lines).strip()
    trailers = [f"{INSTRUCTION}: {message_ids.plain(instruction)}" for instruction in dict.fromkeys(instructions)]
    if undoes:
        trailers.append(f"{UNDOES}: {undoes}")
    if not trailers:
        raise BadInput("a commit on main must name the instruction it carries out")
    return "\n\n".join(part for part in (title, told, "\n".join(trailers)) if part) + "\n"


def read(message: str) -> dict[str, list[str]]:
    """The trailers of a commit message by name; {} for a commit that is not ours."""
    paragraphs = message.strip().split("\n\n")
    found: dict[str, list[str]] = {}
    if len(paragraphs) < 2:
        return found
    for line in paragraphs[-1].splitlines():
        name, separator, value = line.partition(": ")
        if not separator or name not in (INSTRUCTION, UNDOES):
            return {}
        found.setdefault(name, []).append(message_ids.read(value.strip()) if name == INSTRUCTION else value.strip())
    return found
