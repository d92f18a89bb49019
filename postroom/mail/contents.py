"""What is in a letter: which parts are its text, which are attachments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from postroom.mail import html_text, rtf, signed, tnef
from postroom.mail.flowed import unflow
from postroom.mail.letter import Attachment
from postroom.mail.parts import Cutter, Part

MAX_FLOWED = 2_000_000  # characters of all parts together; what comes after them keeps its line breaks
_BODY_TYPES = ("text/plain", "text/html", "text/enriched", "text/richtext")
_SHADOWS = ("text/x-amp-html", "text/watch-html", "text/x-watch-html")  # the same words once more, for other screens


@dataclass
class Passage:
    """A stretch of the text: as plain text, as HTML, or both."""

    plain: str | None = None
    html: str | None = None


@dataclass
class Contents:
    """The text of a letter and what came with it, before names are made safe."""

    passages: list[Passage] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def warn(self, *warnings: str) -> None:
        for warning in warnings:
            if warning not in self.warnings and len(self.warnings) < 200:
                self.warnings.append(warning)

    @property
    def html(self) -> str | None:
        found = [passage.html for passage in self.passages if passage.html]
        return "\n".join(found) or None

    @property
    def text(self) -> str:
        out = []
        room = html_text.MAX_CHARACTERS  # for all passages together: a mail may have a thousand
        for passage in self.passages:
            plain = (passage.plain or "").strip("\n")
            if not plain.strip() and passage.html:
                if len(passage.html) > room:
                    self.warn("the HTML was too long to be turned into text as a whole; its beginning was")
                plain = html_text.to_text(passage.html, room)
                room = max(0, room - len(passage.html))
            if plain.strip():
                out.append(plain)
        return "\n\n".join(out) if len(out) > 1 else (out[0] if out else "")


def gather(root: Part, cutter: Cutter) -> Contents:
    """The text and the attachments of a mail; enclosed messages stay closed."""
    reader = _Reader(cutter)
    reader.found.passages = reader.walk(root, is_root=True)
    if not any((p.plain or "").strip() or (p.html or "").strip() for p in reader.found.passages):
        reader.found.passages += reader.fallback
    return reader.found


class _Reader:
    def __init__(self, cutter: Cutter) -> None:
        self.cutter = cutter
        self.found = Contents()
        self.fallback: list[Passage] = []
        self.unflowed = 0
        self.rich = False

    def walk(self, part: Part, *, is_root: bool = False, among: str = "", index: int = 0) -> list[Passage]:
        try:
            return self._walk(part, is_root=is_root, among=among, index=index)
        except Exception as error:
            # a mail is never lost because one part of it can't be read
            self.found.warn(f"a {part.content_type} part could not be read ({type(error).__name__})")
            self.attach(part)
            return []

    def _walk(self, part: Part, *, is_root: bool, among: str, index: int) -> list[Passage]:
        kind = part.content_type
        if kind.startswith("multipart/") and part.children:
            return self.many(part)
        if kind in _SHADOWS and among == "multipart/alternative" and part.disposition != "attachment":
            self.found.warn(f"left out another version of the text ({kind})")
            return []
        if kind in _BODY_TYPES and not self.is_attachment(part, is_root, among, index):
            return [self.passage(part)]
        name = (part.filename or "").lower()
        if kind in ("application/ms-tnef", "application/vnd.ms-tnef") or name == "winmail.dat":
            return self.winmail(part)
        if kind in ("application/pkcs7-mime", "application/x-pkcs7-mime"):
            return self.opaque(part)
        self.attach(part, related=among == "multipart/related")
        if kind in ("text/plain", "text/html") and part.disposition != "attachment" and not self.fallback:
            self.fallback.append(self.passage(part))
        return []

    def many(self, part: Part) -> list[Passage]:
        kind, children = part.content_type, part.children
        if kind == "multipart/alternative":
            return self.one_of(children)
        if kind == "multipart/encrypted":
            self.found.warn("the mail is encrypted; its text can't be read")
        if kind in ("multipart/signed", "multipart/report", "multipart/encrypted"):
            walked = [] if kind == "multipart/encrypted" else self.walk(children[0], among=kind)
            for child in children[(len(walked) and 1) or (0 if kind == "multipart/encrypted" else 1) :]:
                self.attach(child)
            return walked
        out: list[Passage] = []
        for index, child in enumerate(children):
            out += self.walk(child, among=kind, index=index)
        return out

    def one_of(self, children: list[Part]) -> list[Passage]:
        """The versions of one text side by side: plain from the first that has it, HTML from the last."""
        versions = [self.walk(child, among="multipart/alternative") for child in children]
        plain = next((v for v in versions if any((p.plain or "").strip() for p in v)), [])
        rich = next((v for v in reversed(versions) if any((p.html or "").strip() for p in v)), [])
        if plain is rich:
            return plain
        joined = Passage(
            "\n\n".join(p.plain.strip("\n") for p in plain if p.plain) or None,
            "\n".join(p.html for p in rich if p.html) or None,
        )
        return [joined] if joined.plain or joined.html else []

    def is_attachment(self, part: Part, is_root: bool, among: str, index: int) -> bool:
        if part.disposition == "attachment":
            return True
        if is_root:
            return False
        if among == "multipart/related" and index and (part.content_id or part.fields.first("content-location")):
            return True
        named = part.disposition_parameters.get("filename") or part.parameters.get("name")
        return bool(named) and among != "multipart/alternative"

    def passage(self, part: Part) -> Passage:
        text, warnings = part.text()
        self.found.warn(*warnings)
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        if part.content_type == "text/html":
            return Passage(html=text)
        if part.content_type in ("text/enriched", "text/richtext"):
            return Passage(plain=re.sub(r"<[^<>\n]{0,80}>", "", text))
        if part.parameters.get("format", "").lower() == "flowed" and self.unflowed + len(text) <= MAX_FLOWED:
            self.unflowed += len(text)
            text = unflow(text, delete_space=part.parameters.get("delsp", "").lower() == "yes")
        return Passage(plain=text)

    def winmail(self, part: Part) -> list[Passage]:
        data, damaged = part.content()
        try:
            inside = tnef.unpack(data)
        except tnef.NotTnef:
            self.found.warn("winmail.dat could not be unpacked and is kept as it came")
            self.attach(part)
            return []
        self.found.warn(*([damaged] if damaged else []), *inside.warnings)
        for item in inside.attachments:
            self.add(item.name, "", bool(item.content_id), item.content_id, item.content)
        if not inside.attachments:
            self.attach(part)
        if inside.rtf and not (inside.text or inside.html or self.rich):
            self.rich = True  # once a mail: it is slow to read, and a mail has one body
            try:
                inside.text = rtf.text_of(inside.rtf)
            except rtf.NotRtf:
                self.found.warn("the text in winmail.dat is rich text that could not be read")
        if inside.text or inside.html:
            # Outlook sends the same text beside it; it only counts when nothing else does
            self.fallback.append(Passage(inside.text, inside.html))
        return []

    def opaque(self, part: Part) -> list[Passage]:
        self.attach(part)
        content = signed.content_of(part.content()[0])
        if content is None:
            if "signature" not in part.content_type:
                self.found.warn("an S/MIME part is encrypted or could not be opened; its text can't be read")
            return []
        inner = self.cutter.cut(content, 0, len(content), depth=1)
        return self.walk(inner, among="multipart/signed")

    def add(self, name: str | None, declared: str, inline: bool, cid: str | None, content: bytes) -> None:
        self.found.attachments.append(Attachment("", name, declared, inline, cid, lambda: content))

    def attach(self, part: Part, *, related: bool = False) -> None:
        def decode() -> bytes:
            content, damaged = part.content()
            if damaged:
                self.found.warn(f"{part.filename or part.content_type}: {damaged}")
            return content

        inline = part.disposition == "inline" or (
            part.disposition != "attachment" and (related or bool(part.content_id))
        )
        kind = part.content_type if not part.content_type.startswith("multipart/") else "message/rfc822"
        self.found.attachments.append(Attachment("", part.filename, kind, inline, part.content_id, decode))
