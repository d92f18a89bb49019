"""The text of a body that Outlook sent as compressed RTF (LZFu) only; within bounds, without formatting."""

from __future__ import annotations

import re
import struct

from postroom.mail.charsets import decode as decode_text

MAX_BYTES = 1_000_000  # unpacked; nobody writes a mail that long
_BEGINNING = (  # what the compression takes for granted to have been written before
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,9})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_SIGNS = {
    **dict.fromkeys((b"par", b"line", b"sect", b"page", b"row"), "\n"),
    **dict.fromkeys((b"tab", b"cell"), "\t"),
    **{b"emdash": "—", b"endash": "–", b"bullet": "•", b"lquote": "‘", b"rquote": "’"},
    **{b"ldblquote": "“", b"rdblquote": "”"},
}
_SILENT = frozenset(
    [
        *(b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"object", b"header", b"footer", b"listtable"),
        *(b"listoverridetable", b"themedata", b"datastore", b"filetbl", b"revtbl", b"fldinst"),
    ]
)


class NotRtf(ValueError):
    """These bytes are not RTF, compressed or not."""


def text_of(packed: bytes) -> str:
    """The text of compressed RTF."""
    return to_text(unpack(packed))


def unpack(packed: bytes) -> bytes:
    """The RTF, decompressed; what is damaged ends where the damage begins."""
    if len(packed) < 16:
        raise NotRtf("too short")
    size, kind = struct.unpack_from("<4xI4s", packed)
    if kind == b"MELA":
        return packed[16 : 16 + min(size, MAX_BYTES)]
    if kind != b"LZFu":
        raise NotRtf("neither packed nor plain")
    out, at, limit = bytearray(_BEGINNING), 16, len(_BEGINNING) + min(size, MAX_BYTES)
    while at < len(packed) and len(out) < limit:
        flags, at = packed[at], at + 1
        for bit in range(8):
            if not flags >> bit & 1:
                out += packed[at : at + 1]
                at += 1
                continue
            pair = int.from_bytes(packed[at : at + 2], "big")
            at += 2
            back = (len(out) - (pair >> 4)) % 4096  # the window is a ring; it says where in it, not how far back
            if back == 0 or back > len(out) or at > len(packed):
                return bytes(out[len(_BEGINNING) : limit])
            for _ in range((pair & 15) + 2):
                out.append(out[-back])
    return bytes(out[len(_BEGINNING) : limit])


def to_text(rtf: bytes) -> str:
    """What a reader sees of RTF; HTML that is wrapped up in it leaves its words."""
    if not rtf.startswith(b"{\\rtf"):
        raise NotRtf("it does not begin as RTF")
    out: list[str] = []
    raw = bytearray()  # bytes of a character may come one by one
    page, silent, uc, skip = "cp1252", False, 1, 0
    groups: list[tuple[bool, int]] = []
    for found in _TOKEN.finditer(rtf):
        word, number, byte, sign, brace, plain = found.groups()
        if byte or plain:
            data = bytes.fromhex(byte.decode()) if byte else plain
            data, skip = data[skip:], max(0, skip - len(data))
            raw += b"" if silent else data
            continue
        if raw:
            out.append(decode_text(bytes(raw), page)[0])
            raw.clear()
        if brace == b"{":
            groups.append((silent, uc))
        elif brace and groups:
            silent, uc = groups.pop()
        elif sign == b"*" or word in _SILENT:
            silent = True
        elif word == b"ansicpg" and number:
            page = f"cp{int(number)}"
        elif word == b"uc" and number:
            uc = min(abs(int(number)), 8)
        elif word == b"u" and number and not silent:
            out.append(chr(int(number) & 0xFFFF))
            skip = uc
        elif not silent:
            out.append(_SIGNS.get(word or b"", ""))
            out.append({b"\\": "\\", b"{": "{", b"}": "}", b"~": "\u00a0", b"_": "-"}.get(sign or b"", ""))
    out.append(decode_text(bytes(raw), page)[0] if raw else "")
    joined = "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return re.sub(r"\n{3,}", "\n\n", joined.replace("\r", "")).strip()
