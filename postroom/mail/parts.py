"""The parts of a mail: cut out of the raw bytes without copying or decoding them, with bounds on depth and number."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from postroom.mail import fields, parameters, transfer
from postroom.mail.charsets import decode as decode_text
from postroom.mail.fields import Fields

MAX_DEPTH = 30
MAX_PARTS = 1000
MAX_DELIMITERS = 20_000

_TYPE = re.compile(r"([a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+)")
_DASHES = re.compile(rb"(?:\A|\n)--([^\r\n]{1,200}?)[ \t]{0,20}\r?\n")


@dataclass(slots=True)
class Part:
    """One part: its header read, its body still where it lies in the mail."""

    fields: Fields
    content_type: str
    parameters: dict[str, str]
    disposition: str
    disposition_parameters: dict[str, str]
    encoding: str
    source: bytes
    start: int
    end: int
    children: list[Part] = field(default_factory=list)

    @property
    def raw(self) -> bytes:
        return self.source[self.start : self.end]

    def content(self) -> tuple[bytes, str | None]:
        """The decoded bytes, and a warning when they were damaged."""
        return transfer.decode(self.raw, self.encoding)

    def text(self) -> tuple[str, list[str]]:
        """The decoded text, and warnings."""
        data, damaged = self.content()
        charset = self.parameters.get("charset")
        if not charset and self.content_type == "text/html":
            charset = _meta_charset(data)
        text, doubt = decode_text(data, charset)
        return text, [w for w in (damaged, doubt) if w]

    @property
    def filename(self) -> str | None:
        """The name the sender gave, decoded: Content-Disposition first, then Content-Type, then Content-Location."""
        name = self.disposition_parameters.get("filename") or self.parameters.get("name")
        if not name and self.encoding == "uuencode":
            name = transfer.uu_name(self.source[self.start : self.start + 2000])
        if not name and not self.content_type.startswith(("text/", "multipart/")):
            place = parameters.parse(self.fields.text("content-location"))[0] and self.fields.text("content-location")
            name = re.split(r"[?#]", place)[0].rsplit("/", 1)[-1] if not place.lower().startswith("cid:") else None
        return name or None

    @property
    def content_id(self) -> str | None:
        return self.fields.text("content-id").strip("<> \t") or None


class Cutter:
    """Cuts one mail into parts; counts them so that a bomb stays small."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.count = 0

    def warn(self, warning: str) -> None:
        if warning not in self.warnings and len(self.warnings) < 100:
            self.warnings.append(warning)

    def cut(self, source: bytes, start: int, end: int, *, depth: int = 0, default: str = "text/plain") -> Part:
        """The part that lies between start and end, with everything in it except enclosed messages."""
        self.count += 1
        header, body = fields.split(source, start, end)
        for warning in header.warnings:
            self.warn(warning)
        part = described(header, default, source, body, end)
        if part.content_type.startswith("multipart/"):
            self._open(part, depth)
        return part

    def _open(self, part: Part, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self.warn(f"parts nested deeper than {MAX_DEPTH} were kept unopened")
            return
        spans = self._spans(part)
        if spans is None and part.encoding != "identity":
            # a multipart may not be encoded as a whole, yet some are
            part.source, warning = part.content()
            part.start, part.end, part.encoding = 0, len(part.source), "identity"
            if warning:
                self.warn(warning)
            spans = self._spans(part)
        if spans is None:
            self.warn(f"a {part.content_type} part has no parts in it; read as text")
            part.content_type, part.parameters = "text/plain", {}
            return
        default = "message/rfc822" if part.content_type == "multipart/digest" else "text/plain"
        for first, last in spans:
            if self.count >= MAX_PARTS:
                self.warn(f"more than {MAX_PARTS} parts; the rest was left out")
                break
            part.children.append(self.cut(part.source, first, last, depth=depth + 1, default=default))

    def _spans(self, part: Part) -> list[tuple[int, int]] | None:
        boundary = part.parameters.get("boundary", "")
        if boundary:
            found = self._between(part, boundary.encode("utf-8", "replace"))
            if found is None and boundary != boundary.rstrip():
                found = self._between(part, boundary.rstrip().encode())
            if found is not None:
                return found
        # no boundary, or not the one that was used: the first line that looks like one
        guess = _DASHES.search(part.source, max(part.start - 1, 0), min(part.end, part.start + 64 * 1024))
        if guess is None:
            return None
        self.warn("the boundary between parts was missing or wrong and was guessed")
        return self._between(part, guess[1])

    def _between(self, part: Part, boundary: bytes) -> list[tuple[int, int]] | None:
        source, end = part.source, part.end
        mark = b"--" + boundary
        begins: int | None = None
        spans: list[tuple[int, int]] = []
        position = part.start
        for _ in range(MAX_DELIMITERS):
            at = source.find(mark, position, end)
            if at < 0:
                break
            position = at + len(mark)
            if at > part.start and source[at - 1] not in b"\r\n":
                continue
            after = source[position : position + 2]
            closing = after == b"--"
            if not closing and after[:1] not in (b"", b"\r", b"\n", b" ", b"\t"):
                continue  # another boundary that only begins like this one
            if begins is not None:
                spans.append((begins, _without_newline(source, begins, at)))
                begins = None
            if closing:
                break
            line_end = source.find(b"\n", position, end)
            begins = end if line_end < 0 else line_end + 1
            position = begins
            if len(spans) > MAX_PARTS:
                break
        else:
            self.warn("too many lines that look like boundaries; the rest was left out")
        if begins is not None and begins < end:
            spans.append((begins, end))
            self.warn("the last boundary is missing; the mail may be cut short")
        return spans or None


def _without_newline(source: bytes, begins: int, at: int) -> int:
    """Where a part ends: the line break before a boundary belongs to the boundary."""
    if at > begins and source[at - 1] == 10:
        at -= 1
    if at > begins and source[at - 1] == 13:
        at -= 1
    return at


def described(header: Fields, default: str, source: bytes, start: int, end: int) -> Part:
    """The part with this header, unopened: its body lies between start and end."""
    kind, given = default, {}
    for value in header.all("content-type"):
        head, found = parameters.parse(value)
        if match := _TYPE.search(head[:300]):
            kind, given = match[1], found
            break
        if found and not given:
            given = found
        if head == "text":
            kind = "text/plain"
        elif head.rstrip("/") in ("application", "image", "audio", "video"):
            kind, given = "application/octet-stream", found
            break
        elif head.startswith("multipart") and found.get("boundary"):
            kind, given = "multipart/mixed", found  # `multipart/*`, or no word after the slash
            break
    head, more = parameters.parse(header.first("content-disposition") or "")
    name, equals, text = head.partition("=")
    if equals:  # `Content-Disposition: filename=a.pdf`
        head, more = "", {name.strip(): text.strip().strip('"'), **more}
    encoding = transfer.encoding_of(header.text("content-transfer-encoding"))
    return Part(header, kind, given, head.split()[0] if head else "", more, encoding, source, start, end)


_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.I)


def _meta_charset(data: bytes) -> str | None:
    found = _META.search(data[:4096])
    return found[1].decode("ascii") if found else None
