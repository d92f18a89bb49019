"""What kind of thing an instruction asks for: an edit, or just "publish" or "undo"."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Wish = Literal["edit", "publish", "undo"]

_WORDS: dict[str, Wish] = {
    **dict.fromkeys(("publish", "publish it", "publish this", "publish the site", "publish now", "go live"), "publish"),
    **dict.fromkeys(("veröffentlichen", "bitte veröffentlichen", "publier", "publicar", "pubblica"), "publish"),
    **dict.fromkeys(("publiceren", "publicera", "offentliggør", "publiser", "opublikuj"), "publish"),
    **dict.fromkeys(("undo", "undo it", "undo this", "undo that", "undo the last change", "revert"), "undo"),
    **dict.fromkeys(("rückgängig", "rückgängig machen", "annuler", "deshacer", "annulla"), "undo"),
    **dict.fromkeys(("ongedaan maken", "ångra", "fortryd", "angre", "cofnij", "desfazer"), "undo"),
}
_POLITE = re.compile(
    r"^(?:please|pls|hi|hello|bitte|s'il vous plaît|por favor|per favore|alsjeblieft)\b[\s,]*"
    r"|[\s,]*\b(?:please|pls|now|thanks|thank you|thx|bitte|danke|merci|gracias|grazie|s'il vous plaît|por favor)$"
)


def wish_of(instruction: str) -> Wish:
    """`publish` or `undo` when the instruction says only that, politely or not; else it is an edit."""
    if len(instruction) > 200:
        return "edit"
    text = unicodedata.normalize("NFC", instruction).casefold()
    text = re.sub(r"[\s.!,;:\"'»«„“”*]+", " ", text).strip()
    for _ in range(4):
        if text in _WORDS:
            return _WORDS[text]
        shorter = _POLITE.sub("", text).strip()
        if shorter == text:
            break
        text = shorter
    return "edit"
