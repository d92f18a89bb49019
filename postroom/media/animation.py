"""Animations are kept as they came; only what tells where and with what they were made is cut out."""

from __future__ import annotations

_PNG_METADATA = frozenset({b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"tIME"})
_WEBP_METADATA = frozenset({b"EXIF", b"XMP "})
_GIF_LOOP = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def frames_of_png(data: bytes) -> int:
    """Frames of an animated PNG; 1 for a still one."""
    at = 8
    while at + 8 <= len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if name == b"acTL":
            return max(1, int.from_bytes(data[at + 8 : at + 12], "big"))
        if name == b"IDAT":
            return 1
        at += 12 + size
    return 1


def without_metadata(data: bytes, form: str) -> bytes | None:
    """The same animation without EXIF, XMP, texts and comments; None when its structure is broken."""
    try:
        return {"gif": _gif, "webp": _webp, "png": _png}[form](data)
    except (IndexError, ValueError):
        return None


def _png(data: bytes) -> bytes:
    kept, at = bytearray(data[:8]), 8
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        if end > len(data) or len(name) < 4:
            raise ValueError("cut short")
        if name not in _PNG_METADATA:
            kept += data[at:end]
        if name == b"IEND":
            return bytes(kept)
        at = end
    raise ValueError("no end")


def _webp(data: bytes) -> bytes:
    kept, at = bytearray(), 12
    end_of_file = min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    while at + 8 <= end_of_file:
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        end = at + 8 + size + (size & 1)
        if at + 8 + size > len(data):
            raise ValueError("cut short")
        chunk = bytearray(data[at:end])
        if chunk[:4] == b"VP8X":
            chunk[8] &= ~0x0C & 0xFF  # the flags that promise EXIF and XMP
        if bytes(chunk[:4]) not in _WEBP_METADATA:
            kept += chunk
        at = end
    return b"RIFF" + (len(kept) + 4).to_bytes(4, "little") + b"WEBP" + bytes(kept)


def _gif(data: bytes) -> bytes:
    at = 13 + _colour_table(data[10])
    kept = bytearray(data[:at])
    while True:
        begin, mark = at, data[at]
        if mark == 0x3B:
            kept.append(mark)
            return bytes(kept)
        if mark == 0x2C:
            at += 10 + _colour_table(data[at + 9]) + 1
            at = _after_blocks(data, at)
            kept += data[begin:at]
        elif mark == 0x21:
            label = data[at + 1]
            at = _after_blocks(data, at + 2)
            comment = label == 0xFE
            foreign = label == 0xFF and data[begin + 3 : begin + 14] not in _GIF_LOOP
            if not (comment or foreign):
                kept += data[begin:at]
        else:
            raise ValueError("unknown block")


def _colour_table(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _after_blocks(data: bytes, at: int) -> int:
    while size := data[at]:
        at += size + 1
    return at + 1
