"""The message inside an opaque S/MIME signature (application/pkcs7-mime; smime-type=signed-data)."""

from __future__ import annotations

MAX_DEPTH = 20
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")


def content_of(data: bytes) -> bytes | None:
    """The signed bytes, not verified (the receiving host vouches for the sender); None when there are none."""
    try:
        tag, body, _ = _element(data, 0)
        if tag != 0x30:
            return None
        kind, oid, after = _element(body, 0)
        if kind != 0x06 or oid != _SIGNED_DATA:
            return None
        signed = _element(_element(body, after)[1], 0)[1]
        position = _element(signed, 0)[2]  # version
        position = _element(signed, position)[2]  # digest algorithms
        enclosed = _element(signed, position)[1]
        after = _element(enclosed, 0)[2]  # the type of what is enclosed
        if after >= len(enclosed):
            return None
        tag, octets, _ = _element(_element(enclosed, after)[1], 0)
        return _octets(tag, octets, 0)
    except (IndexError, ValueError):
        return None


def _octets(tag: int, value: bytes, depth: int) -> bytes:
    if tag == 0x04:
        return value
    if tag != 0x24 or depth > MAX_DEPTH:
        raise ValueError("not an octet string")
    out, position = [], 0
    while position < len(value):
        inner, piece, position = _element(value, position)
        out.append(_octets(inner, piece, depth + 1))
    return b"".join(out)


def _element(data: bytes, position: int, depth: int = 0) -> tuple[int, bytes, int]:
    """Tag, value and the position after it (BER: indefinite lengths too)."""
    tag, length = data[position], data[position + 1]
    position += 2
    if length == 0x80:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        start = position
        while data[position : position + 2] != b"\0\0":
            position = _element(data, position, depth + 1)[2]
        return tag, data[start:position], position + 2
    if length > 0x80:
        count = length & 0x7F
        if count > 4:
            raise ValueError("length is too long")
        length = int.from_bytes(data[position : position + count], "big")
        position += count
    if position + length > len(data):
        raise ValueError("cut short")
    return tag, data[position : position + length], position + length
