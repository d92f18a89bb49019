"""Content-Transfer-Encoding undone; broken data is decoded as far as it goes."""

from __future__ import annotations

import binascii
import re

_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]+")
_BEGIN = re.compile(rb"^begin(?:-base64)? [0-7]{3,4} ([^\r\n]*)\r?$", re.M)
_QP_NAMES = ("quoted-printable", "quoted printable", "quotedprintable", "qp")
_UU_NAMES = ("x-uuencode", "uuencode", "x-uue", "uue", "x-uu")


def encoding_of(field: str) -> str:
    """The encoding meant by a header that may hold comments, semicolons, or nonsense."""
    name = re.split(r"[;\s(]", field.strip().strip("\"'").lower(), maxsplit=1)[0]
    if field.strip().lower().startswith(_QP_NAMES):
        return "quoted-printable"
    if name == "base64":
        return "base64"
    return "uuencode" if name in _UU_NAMES else "identity"


def decode(data: bytes, encoding: str) -> tuple[bytes, str | None]:
    """The bytes meant, and a warning when the data was broken."""
    if encoding == "base64":
        return _base64(data)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(data), None
    if encoding == "uuencode":
        return _uu(data)
    return data, None


def _base64(data: bytes) -> tuple[bytes, str | None]:
    padding = data.find(b"=")
    # the usual case: one run of base64, at most padding and blanks after it
    if padding < 0 or not data[padding:].strip(b"=\r\n\t \0"):
        try:
            return binascii.a2b_base64(data), None
        except binascii.Error:
            pass
    out = []
    clean = _NOT_BASE64.sub(b"", data)
    for run in re.split(rb"=+", clean):
        rest = len(run) % 4
        out.append(binascii.a2b_base64((run[:-1] if rest == 1 else run) + b"=" * (-len(run) % 4 if rest > 1 else 0)))
    return b"".join(out), "base64 data was damaged"


def _uu(data: bytes) -> tuple[bytes, str | None]:
    begin = _BEGIN.search(data)
    if begin is None:
        return data, "uuencoded data without its begin line"
    out, warning = [], None
    for line in data[begin.end() :].lstrip(b"\r\n").splitlines():
        if line.strip() in (b"end", b"`", b""):
            if line.strip() == b"end":
                break
            continue
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # a well known flaw of some encoders: too many characters in the last group
            wanted = (((line[0] - 32) & 63) * 4 + 5) // 3
            try:
                out.append(binascii.a2b_uu(line[:wanted]))
            except binascii.Error:
                warning = "uuencoded data was damaged"
    return b"".join(out), warning


def uu_name(data: bytes) -> str | None:
    """The file name in the begin line of uuencoded data."""
    begin = _BEGIN.search(data[:2000])
    return begin[1].decode("utf-8", "replace").strip() or None if begin else None
