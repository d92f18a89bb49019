"""Bytes to text when the charset is wrong, unknown, or not said."""

from __future__ import annotations

import codecs
import re

# What mail calls them, and the superset that really decodes what mailers write under that name.
_MEANT = {
    **dict.fromkeys(("ascii", "us-ascii", "ansi_x3.4-1968", "default", "unknown-8bit", "x-unknown", "none"), ""),
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1", "ansi"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80", "x-gbk", "euc-cn"), "gb18030"),
    **dict.fromkeys(("ks_c_5601-1987", "ks_c_5601", "euc-kr", "ksc5601", "ks_c_5601-1989", "korean"), "cp949"),
    **dict.fromkeys(("shift_jis", "shift-jis", "x-sjis", "sjis", "windows-31j", "ms_kanji"), "cp932"),
    **dict.fromkeys(("iso-2022-jp", "iso-2022-jp-ms", "cp50220", "cp50221"), "iso2022_jp_ext"),
    **dict.fromkeys(("big5", "x-big5", "big5-hkscs"), "big5hkscs"),
    **dict.fromkeys(("iso-8859-8-i", "iso-8859-8-e", "logical"), "iso8859_8"),
    **dict.fromkeys(("utf8", "utf-8", "utf8mb4", "unicode-1-1-utf-8", "x-utf-8", "cp65001", "utf"), "utf-8-sig"),
    **dict.fromkeys(("unicode-1-1-utf-7", "utf-7", "x-unicode-2-0-utf-7"), "utf-7"),
    **dict.fromkeys(("x-mac-roman", "macintosh", "x-macintosh", "mac"), "mac_roman"),
    **dict.fromkeys(("tis-620", "windows-874", "iso-8859-11"), "cp874"),
    "iso-8859-9": "cp1254",
}
# for names of hosts and for source code; punycode takes time that grows with the square of the text
_NEVER_MEANT = frozenset(("punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined"))
_CODE_PAGE = re.compile(r"(?:x-)?(?:cp|win|windows|ibm|x-cp)[-_]?(\d{3,5})$")


def codec_of(charset: str | None) -> str | None:
    """The Python codec for a charset as mail writes it; "" when it says nothing, None when nobody knows it."""
    name = (charset or "").strip().strip("\"'").split("*", 1)[0].strip().lower()
    if not name:
        return ""
    if name in _MEANT:
        return _MEANT[name]
    if page := _CODE_PAGE.match(name):
        name = f"cp{page[1]}"
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError, UnicodeError):
        return None
    # base64, zlib, rot13 … are codecs too, but not of text; some are of text, but not of mail
    return found.name if getattr(found, "_is_text_encoding", True) and found.name not in _NEVER_MEANT else None


def decode(data: bytes, charset: str | None) -> tuple[str, str | None]:
    """The text, and a warning when it could not be read as the charset that was named."""
    codec = codec_of(charset)
    if codec:
        try:
            text = data.decode(codec)
            return (text if codec in ("utf-8-sig", "cp1252") else _whole(text)), None  # those yield none
        except (UnicodeError, ValueError, LookupError):
            pass
    guess = _guess(data)
    if codec == "":
        return guess, None
    shown = (charset or "")[:40]
    if codec is None:
        return guess, f"unknown charset {shown!r}"
    if codec not in ("cp1252", "utf-8-sig"):
        # mostly right in its own charset beats wholly wrong in another
        try:
            own = _whole(data.decode(codec, "replace"))
        except (UnicodeError, ValueError, LookupError):
            own = guess
        if own.count("�") * 20 <= len(own):
            return own, f"text is not valid {shown}"
    return guess, f"text is not valid {shown}"


def _guess(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeError:
        # UTF-8 with a few broken bytes, or one of the one-byte charsets?
        loose = data.decode("utf-8-sig", "replace")
        high = sum(1 for c in loose if c > "\x7f" and c != "�")
        if high > loose.count("�"):
            return loose
        return data.decode("cp1252", "replace")


def _whole(text: str) -> str:
    """Text without lone surrogates, which no JSON or file could hold."""
    return text.encode("utf-8", "replace").decode("utf-8") if _SURROGATE.search(text) else text


_SURROGATE = re.compile(r"[\ud800-\udfff]")
