"""winmail.dat unpacked: the attachments and the body Outlook hid in a TNEF stream, read within bounds."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from postroom.mail.charsets import decode as decode_text

SIGNATURE = b"\x78\x9f\x3e\x22"
MAX_ATTACHMENTS = 500
MAX_PROPERTIES = 2000

_ATTACH_RENDERING, _ATTACH_DATA, _ATTACH_TITLE, _ATTACHMENT = 0x9002, 0x800F, 0x8010, 0x9005
_BODY, _MESSAGE_PROPERTIES, _CODE_PAGE = 0x800C, 0x9003, 0x9007
_PR_BODY, _PR_HTML, _PR_RTF = 0x1000, 0x1013, 0x1009
_PR_DATA, _PR_FILENAME, _PR_LONG_FILENAME, _PR_CONTENT_ID, _PR_DISPLAY = 0x3701, 0x3704, 0x3707, 0x3712, 0x3001
_FIXED = {
    **dict.fromkeys((0x0000, 0x0001), 0),  # unspecified, null
    **dict.fromkeys((0x0002, 0x0003, 0x0004, 0x000A, 0x000B), 4),
    **dict.fromkeys((0x0005, 0x0006, 0x0007, 0x0014, 0x0040), 8),
}
_CLSID, _STRING8, _UNICODE, _BINARY, _OBJECT, _MULTIPLE = 0x0048, 0x001E, 0x001F, 0x0102, 0x000D, 0x1000


class NotTnef(ValueError):
    """These bytes are not a TNEF stream."""


@dataclass
class Enclosure:
    """One attachment inside."""

    name: str | None = None
    content: bytes = b""
    content_id: str | None = None


@dataclass
class Unpacked:
    """What was inside a winmail.dat."""

    attachments: list[Enclosure] = field(default_factory=list)
    text: str | None = None
    html: str | None = None
    rtf: bytes | None = None
    warnings: list[str] = field(default_factory=list)


def unpack(data: bytes) -> Unpacked:
    """Everything useful inside; what is damaged is left out with a warning."""
    if not data.startswith(SIGNATURE):
        raise NotTnef("no TNEF signature")
    out = Unpacked()
    page = "cp1252"
    position, end = 6, len(data)
    while position + 11 <= end:
        level, kind, length = struct.unpack_from("<BII", data, position)
        start = position + 9
        if level not in (1, 2) or start + length > end:
            out.warnings.append("winmail.dat is damaged; what could be read was kept")
            break
        value = data[start : start + length]
        position = start + length + 2  # a checksum follows
        name = kind & 0xFFFF
        if name == _CODE_PAGE and len(value) >= 4:
            page = f"cp{struct.unpack_from('<I', value)[0]}"
        elif name == _ATTACH_RENDERING:
            if len(out.attachments) >= MAX_ATTACHMENTS:
                out.warnings.append(f"winmail.dat holds more than {MAX_ATTACHMENTS} attachments")
                break
            out.attachments.append(Enclosure())
        elif name == _BODY and level == 1:
            out.text = out.text or _string(value, page)
        elif name == _MESSAGE_PROPERTIES:
            _read_message(out, value, page)
        elif out.attachments:
            _read_attachment(out, out.attachments[-1], name, value, page)
    out.attachments = [item for item in out.attachments if item.content]
    return out


def _read_attachment(out: Unpacked, item: Enclosure, name: int, value: bytes, page: str) -> None:
    if name == _ATTACH_TITLE:
        item.name = item.name or _string(value, page)
    elif name == _ATTACH_DATA:
        item.content = item.content or value
    elif name == _ATTACHMENT:
        found = _properties(out, value, page)
        long = found.get(_PR_LONG_FILENAME) or found.get(_PR_FILENAME) or found.get(_PR_DISPLAY)
        if isinstance(long, str) and long:
            item.name = long
        if isinstance(cid := found.get(_PR_CONTENT_ID), str) and cid:
            item.content_id = cid.strip("<>")
        content = found.get(_PR_DATA)
        if isinstance(content, bytes) and content and not item.content:
            item.content = content


def _read_message(out: Unpacked, value: bytes, page: str) -> None:
    found = _properties(out, value, page)
    body, html, rtf = found.get(_PR_BODY), found.get(_PR_HTML), found.get(_PR_RTF)
    if isinstance(body, str):
        out.text = body or out.text
    if isinstance(html, bytes):
        html = _string(html, page if page != "cp1252" else "utf-8")
    if isinstance(html, str):
        out.html = html or None
    if isinstance(rtf, bytes):
        out.rtf = rtf


def _string(value: bytes, page: str) -> str:
    return decode_text(value.split(b"\0", 1)[0], page)[0]


def _properties(out: Unpacked, value: bytes, page: str) -> dict[int, str | bytes]:
    found: dict[int, str | bytes] = {}
    try:
        (count,) = struct.unpack_from("<I", value)
        position = 4
        for _ in range(min(count, MAX_PROPERTIES)):
            kind, name = struct.unpack_from("<HH", value, position)
            position += 4
            if name >= 0x8000:
                position = _past_name(value, position)
            position = _read_property(found, value, position, kind, name, page)
    except (struct.error, ValueError, IndexError):
        out.warnings.append("a list of properties in winmail.dat is damaged")
    return found


def _past_name(value: bytes, position: int) -> int:
    (kind,) = struct.unpack_from("<I", value, position + 16)
    (size,) = struct.unpack_from("<I", value, position + 20)
    return position + 24 if kind == 0 else position + 24 + _padded(size)


def _padded(size: int) -> int:
    return (size + 3) & ~3


def _read_property(found: dict[int, str | bytes], value: bytes, position: int, kind: int, name: int, page: str) -> int:
    multiple, kind = bool(kind & _MULTIPLE), kind & ~_MULTIPLE
    variable = kind in (_STRING8, _UNICODE, _BINARY, _OBJECT)
    count = 1
    if multiple or variable:
        (count,) = struct.unpack_from("<I", value, position)
        position += 4
        if count > MAX_PROPERTIES:
            raise ValueError("too many values")
    for _ in range(count):
        if not variable:
            position += 16 if kind == _CLSID else _FIXED[kind] if kind in _FIXED else _unknown(kind)
            continue
        (size,) = struct.unpack_from("<I", value, position)
        position += 4
        if position + size > len(value):
            raise ValueError("longer than the stream")
        piece = value[position : position + size]
        position += _padded(size)
        if kind == _UNICODE:
            found[name] = piece.decode("utf-16-le", "replace").split("\0", 1)[0]
        elif kind == _STRING8:
            found[name] = _string(piece, page)
        else:
            found[name] = piece[16:] if kind == _OBJECT else piece
    return position


def _unknown(kind: int) -> int:
    raise ValueError(f"unknown property type {kind:#x}")
