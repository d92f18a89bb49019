"""Message-IDs as they stand in headers: in angle brackets, or as some programs leave them."""

from __future__ import annotations

import re

from postroom.mail.words import one_line

_ANGLED = re.compile(r"<\s*([^<>\s]{1,900})\s*>")


def own(value: str) -> str | None:
    """The id in a Message-ID header, without brackets."""
    if found := _ANGLED.search(value):
        return found[1]
    return one_line(value).strip("<> ").replace(" ", "")[:900] or None


def chain(value: str) -> list[str]:
    """The ids in References or In-Reply-To, oldest first. Without brackets only what looks like an id is one."""
    if found := _ANGLED.findall(value):
        return found
    bare = value.split()
    return [item for word in bare if (item := word.strip("<>,;"))] if bare and "@" in bare[0] else []
