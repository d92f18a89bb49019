"""The header of a mail or of a part: bounded, in order, nothing thrown away without a warning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from postroom.mail.words import text_of, unfold

MAX_HEADER_BYTES = 256 * 1024
MAX_FIELD_BYTES = 64 * 1024
MAX_FIELDS = 1000
MAX_READ_BYTES = 2 * 1024 * 1024  # looked at line by line; what is longer is skipped up to the empty line
_TOO_LARGE = f"the header was larger than {MAX_FIELDS} fields or 256 KB; the rest of it was left out"

_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.I)
_BLANK = re.compile(rb"\n\r?\n")
_FIELD = re.compile(rb"([!-9;-~]{1,200})[ \t]*:")


@dataclass(slots=True)
class Fields:
    """Header fields in the order they came, names as written."""

    items: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cut: bool = False  # whether fields were left out: nobody knows then what else they say

    def all(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for key, value in self.items if key.lower() == wanted]

    def first(self, name: str) -> str | None:
        return next(self._values(name), None)

    def text(self, name: str) -> str:
        """The first value of that name, unfolded and stripped; "" when there is none."""
        return unfold(self.first(name) or "").strip()

    def _values(self, name: str) -> Iterator[str]:
        wanted = name.lower()
        return (value for key, value in self.items if key.lower() == wanted)


def split(raw: bytes, start: int, end: int) -> tuple[Fields, int]:
    """The header that begins at `start`, and where the body begins."""
    fields = Fields()
    names: list[bytes] = []
    values: list[list[bytes]] = []
    position, kept, size, dropping = start, 0, 0, False  # bytes kept of all fields, bytes of the one being read
    while position < end:
        if position - start > MAX_READ_BYTES:
            _too_large(fields)
            blank = _BLANK.search(raw, position - 1, end)
            position = blank.end() if blank else end
            break
        line_end = raw.find(b"\n", position, end)
        stop = end if line_end < 0 else line_end + 1
        if stop - position > MAX_FIELD_BYTES:
            line = raw[position : position + MAX_FIELD_BYTES]
            _once(fields, "a header line was longer than 64 KB and was cut")
        else:
            line = raw[position:stop]
        bare = line.rstrip(b"\r\n")
        if not bare:
            position = stop
            break
        found = _FIELD.match(bare)
        if bare[:1] in (b" ", b"\t"):
            if values and not dropping and size <= MAX_FIELD_BYTES:
                values[-1].append(line)
                size, kept = size + len(line), kept + len(line)
        elif found:
            dropping = len(names) >= MAX_FIELDS or kept > MAX_HEADER_BYTES
            if dropping:
                _too_large(fields)
            else:
                names.append(found[1])
                values.append([bare[found.end() :] + line[len(bare) :]])
                size, kept = len(line), kept + len(line)
        elif bare.startswith((b"From ", b">From ")) and not names:
            pass  # the envelope line of an mbox
        elif _more_header(raw, stop, end):
            _once(fields, "a line in the header was not a header field and was skipped")
        else:
            fields.warnings.append("no empty line between header and body")
            break
        position = stop
    total = 0
    hint = _charset(names, values)
    for name, lines in zip(names, values, strict=True):
        value = b"".join(lines)
        if len(value) > MAX_FIELD_BYTES:
            value = value[:MAX_FIELD_BYTES]
            _once(fields, "a header field was longer than 64 KB and was cut")
        total += len(value)
        if total > MAX_HEADER_BYTES:
            _too_large(fields)
            break
        fields.items.append((name.decode("ascii"), text_of(value, hint).strip()))
    return fields, position


def _charset(names: list[bytes], values: list[list[bytes]]) -> str | None:
    """The charset the body is said to be in: the best guess for header bytes that are not UTF-8."""
    for name, lines in zip(names, values, strict=True):
        if name.lower() == b"content-type" and (found := _CHARSET.search(b"".join(lines)[:2000])):
            return found[1].decode("ascii")
    return None


def _more_header(raw: bytes, position: int, end: int) -> bool:
    """Whether header fields go on after a line that is none: the next lines up to the empty one say so."""
    for _ in range(3):
        stop = raw.find(b"\n", position, min(end, position + 2000))
        if stop < 0:
            return False
        line = raw[position:stop].rstrip(b"\r")
        if not line:
            return False
        if _FIELD.match(line) and not line.lower().startswith((b"http:", b"https:", b"mailto:")):
            return True
        position = stop + 1
    return False


def _too_large(fields: Fields) -> None:
    fields.cut = True
    _once(fields, _TOO_LARGE)


def _once(fields: Fields, warning: str) -> None:
    if warning not in fields.warnings:
        fields.warnings.append(warning)
