"""Header text: encoded words (RFC 2047), raw 8-bit, folds."""

from __future__ import annotations

import binascii
import re

from postroom.mail import charsets

# Lenient on purpose: spaces inside Q words and a missing last `?=` at the end of a header are common.
_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*(?:\?(?!=)[^?]*)*?)(?:\?=|\Z)")
_BETWEEN = re.compile(r"[ \t\r\n]*")
# each run of blanks is looked at once: from its first blank, or not at all
_LINES = re.compile(r"(?:(?<![ \t])[ \t]++)?[\r\n]+[ \t]*")
_FOLD = re.compile(r"(?:(?<![ \t])[ \t]++)?\r?\n[ \t]+")  # a person sees one space, however far it is set in
_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def text_of(raw: bytes, hint: str | None = None) -> str:
    """A header's bytes as text: UTF-8 when it is, else the charset of the body, else Windows-1252."""
    try:
        return raw.decode("utf-8")
    except UnicodeError:
        if hint and charsets.codec_of(hint):
            text, doubt = charsets.decode(raw, hint)
            if not doubt:
                return text
        return charsets.decode(raw, None)[0]


def decode_words(value: str) -> str:
    """The value with its encoded words decoded; what can't be decoded stays as it came."""
    if "=?" not in value:
        return value
    out: list[str] = []
    pending: list[tuple[str, bytes]] = []  # adjacent words: a character may be split between two of them
    position = 0
    for match in _WORD.finditer(value):
        data = _bytes_of(match[2], match[3], match[1])
        gap = value[position : match.start()]
        if data is None:
            continue
        if not (pending and _BETWEEN.fullmatch(gap)):
            out.append(_flush(pending))
            out.append(gap)
        pending.append((match[1], data))
        position = match.end()
    out.append(_flush(pending))
    out.append(value[position:])
    return "".join(out)


def _flush(pending: list[tuple[str, bytes]]) -> str:
    out, held, charset = [], b"", None
    for name, data in pending:
        if (charset is not None and name.lower() != charset.lower()) or (held and _stateful(name)):
            out.append(charsets.decode(held, charset)[0])
            held = b""
        charset, held = name, held + data
    if charset is not None:
        out.append(charsets.decode(held, charset)[0])
    pending.clear()
    return "".join(out)


def _stateful(charset: str) -> bool:
    return charset.lower().startswith(("iso-2022", "utf-7", "hz"))


def _bytes_of(kind: str, body: str, charset: str) -> bytes | None:
    if kind in "qQ":
        raw = _raw(body, charset)
        return binascii.a2b_qp(raw.replace(b"\r\n", b"").replace(b"\n", b""), header=True)
    packed = re.sub(r"[^A-Za-z0-9+/]", "", body.replace("-", "+").replace("_", "/"))
    if len(packed) % 4 == 1:
        packed = packed[:-1]
    try:
        return binascii.a2b_base64(packed + "=" * (-len(packed) % 4))
    except (binascii.Error, ValueError):
        return None


def _raw(body: str, charset: str) -> bytes:
    """The bytes of a Q word: raw 8-bit in it was read as text already and goes back into the word's own charset."""
    codec = charsets.codec_of(charset) or "utf-8"
    if not body.isascii() and codec != "utf-8-sig":
        try:
            return body.encode(codec)
        except (UnicodeError, ValueError, LookupError):
            pass
    return body.encode("utf-8", "surrogateescape")


def lowered(text: str) -> str:
    """The text with A-Z in lower case, and nothing else: the Kelvin sign is no k."""
    return text.translate(_LOWER)


def one_line(text: str) -> str:
    """The text on one line, without control characters: safe to show and to put into a header."""
    return _CONTROL.sub("", _LINES.sub(" ", text)).strip()


def unfold(value: str) -> str:
    """A header's value with its folds taken out."""
    return value.replace("\r\n", "").replace("\n", "").replace("\r", "") if "\n" in value or "\r" in value else value


def header_text(value: str) -> str:
    """What a person reads in a header: unfolded, decoded, on one line."""
    return one_line(decode_words(_FOLD.sub(" ", value) if "\n" in value else value))
