"""What kind of thing an instruction asks for: an edit, or just "publish" or "undo"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

Wish = Literal["edit", "publish", "undo"]

_WORDS: dict[str, Wish] = {
    **dict.fromkeys(("publish", "publish it", "publish this", "publish the site", "go live"), "publish"),
    **dict.fromkeys(("publish the changes", "publish the change", "publish changes", "publish everything"), "publish"),
    **dict.fromkeys(("veröffentlichen", "bitte veröffentlichen", "publier", "publicar", "pubblica"), "publish"),
    **dict.fromkeys(("publiceren", "publicera", "offentliggør", "publiser", "opublikuj"), "publish"),
    **dict.fromkeys(("undo", "undo it", "undo this", "undo that", "undo the last change", "revert"), "undo"),
    **dict.fromkeys(("undo the change", "revert it", "revert that", "revert the last change"), "undo"),
    **dict.fromkeys(("rückgängig", "rückgängig machen", "annuler", "deshacer", "annulla"), "undo"),
    **dict.fromkeys(("ongedaan maken", "ångra", "fortryd", "angre", "cofnij", "desfazer"), "undo"),
}
_PLEASE = r"please|pls|bitte|s il vous plaît|por favor|per favore|alsjeblieft"
_YES = (
    r"yes|yep|yeah|ok|okay|sure|great|perfect|good|fine|lovely|nice|wonderful|(?:it |this |that |all )?looks (?:good|"
    r"great|fine|perfect)|all good|go ahead(?: and)?|you (?:can|may)(?: now)?|ja|oui|si|sí|sim|tak|super|d accord"
)
_THANKS = r"thanks|thank you|many thanks|thx|danke|vielen dank|merci|gracias|grazie|bedankt|tack|tak|obrigad[oa]"
_POLITE = re.compile(
    rf"^(?:{_PLEASE}|{_YES}|hi|hello|and)\b[\s–—-]*|\s*\b(?:{_PLEASE}|{_THANKS}|now|then)$",
)
_GREETING = re.compile(
    r"(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|liebe[rs]?|guten (?:tag|morgen|abend)|moin|"
    r"bonjour|salut|hola|buenos días|ciao|buongiorno|beste|hej|olá)\b[^.!?:;]{0,40}[,!.]?",
    re.I,
)
_CLOSING = re.compile(
    rf"(?:{_THANKS}|cheers|(?:(?:with )?(?:best|kind|warm) )?(?:regards|wishes)|all the best|best|br|greetings|"
    r"yours(?: sincerely)?|sincerely|(?:mit )?(?:viele|liebe|beste|schöne|freundliche)[nr]? grü(?:ß|ss)en?|"
    r"gr(?:u|ü)(?:ß|ss)e?|mfg|lg|vg|(?:bien )?cordialement|bien à vous|amicalement|saludos|un saludo|saluti|"
    r"cordiali saluti|(?:met )?(?:vriendelijke )?groet(?:en|jes)?|(?:med )?(?:vänliga )?hälsningar|hilsen|"
    r"pozdrawiam|abraços?)(?: (?:a lot|very much|so much|again|in advance))?",
    re.I,
)
_LONGEST_LINE, _MOST_LINES = 60, 8


def wish_of(instruction: str, *, subject: str = "", signed: Sequence[str] = ()) -> Wish:
    """`publish` or `undo` when the instruction says only that, politely or not; else it is an edit.

    `subject` counts when there is no text at all; `signed` are names the sender may have put below it.
    """
    lines = [line.strip() for line in (instruction.strip() or subject).splitlines() if line.strip()]
    if len(lines) > 1 and _GREETING.fullmatch(lines[0]):
        lines = lines[1:]
    for head in range(1, min(len(lines), 3) + 1):
        if (wish := _plain_wish(" ".join(lines[:head]))) != "edit" and _is_sign_off(lines[head:], signed):
            return wish
    return "edit"


def _plain_wish(said: str) -> Wish:
    if len(said) > 200:
        return "edit"
    text = unicodedata.normalize("NFC", said).casefold()
    text = re.sub(r"[\s.!,;:\"'’»«„“”*]+", " ", text).strip()
    for _ in range(6):
        if text in _WORDS:
            return _WORDS[text]
        shorter = _POLITE.sub("", text).strip()
        if shorter == text:
            break
        text = shorter
    return "edit"


def _is_sign_off(lines: Sequence[str], signed: Sequence[str]) -> bool:
    """Whether nothing is asked for in what follows the wish: a closing, the sender's name, where to reach them."""
    if not lines:
        return True
    if len(lines) > _MOST_LINES or any(len(line) > _LONGEST_LINE for line in lines):
        return False
    names = {word for name in signed for word in re.findall(r"\w+", name.casefold())}
    closing = _CLOSING.match(lines[0])
    rest = lines[0][closing.end() :] if closing else lines[0]
    if not set(re.findall(r"\w+", rest.casefold())) <= names:
        return False
    # below a closing stands a name, a company, a number; a sentence may be one more wish
    return all(len(line.split()) <= 5 and not re.search(r"[.!?]$|^p\.?s\b", line, re.I) for line in lines[1:])
