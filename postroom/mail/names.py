"""Names of attachments made safe: to store, to show, to lay into a directory on any system."""

from __future__ import annotations

import re
import unicodedata

MAX_BYTES = 120
_RESERVED = re.compile(r"(?i)^(con|prn|aux|nul|conin\$|conout\$|clock\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)")
_UNSAFE = re.compile(r'[<>:"|?*\\/\x00-\x1f\x7f]+')
_BLANKS = re.compile(r"\s+")


def safe(name: str | None, fallback: str) -> str:
    """A file name without path, control or invisible characters, in NFC, short, never reserved or hidden."""
    text = unicodedata.normalize("NFC", (name or "")[:2000])
    text = re.split(r"[\\/]", text.rstrip("\\/ "))[-1]
    # Cc control, Cf bidi and zero-width, Cs surrogates, Co private, Cn unassigned, Zl/Zp line breaks
    text = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
    text = _UNSAFE.sub("_", _BLANKS.sub(" ", text)).strip(" .~")
    text = text.lstrip("-")
    if not text.strip("_ "):
        return fallback
    if _RESERVED.match(text):
        text = "_" + text
    return _shortened(text)


def _shortened(text: str, limit: int = MAX_BYTES) -> str:
    if len(text.encode()) <= limit:
        return text
    stem, dot, suffix = text.rpartition(".")
    if not dot or len(suffix.encode()) > 15:
        stem, dot, suffix = text, "", ""
    room = limit - len(suffix.encode()) - len(dot)
    return stem.encode()[:room].decode("utf-8", "ignore").rstrip(" .") + dot + suffix


def unique(names: list[str]) -> list[str]:
    """The names, a number added where one came before; systems that ignore case see different names too."""
    taken: set[str] = set()
    wanted = {name.casefold() for name in names}
    out: list[str] = []
    for name in names:
        chosen, number = name, 1
        while chosen.casefold() in taken or (number > 1 and chosen.casefold() in wanted):
            number += 1
            stem, dot, suffix = name.rpartition(".")
            if not dot or not stem:
                stem, dot, suffix = name, "", ""
            mark = f"-{number}"
            chosen = _shortened(stem, MAX_BYTES - len(mark) - len((dot + suffix).encode())) + mark + dot + suffix
        taken.add(chosen.casefold())
        out.append(chosen)
    return out
