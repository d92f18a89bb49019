"""Runs in the sandbox, by itself: `unfold.py PACKAGES KIND DOCUMENT TEXT` writes a document's text beside it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_LONGEST = 60_000
_LARGEST_PART = 20 * 1024 * 1024
_WORDS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def pdf(path: Path) -> str:
    from pypdf import PdfReader

    pages: list[str] = []
    length = 0
    for page in PdfReader(path).pages:
        pages.append(page.extract_text())
        length += len(pages[-1])
        if length > _LONGEST:
            break
    return "\n\n".join(pages)


def docx(path: Path) -> str:
    from defusedxml.ElementTree import fromstring

    with zipfile.ZipFile(path) as archive:
        part = archive.getinfo("word/document.xml")
        if part.file_size > _LARGEST_PART:
            raise ValueError("the document is too large inside")
        with archive.open(part) as opened:
            body = fromstring(opened.read(_LARGEST_PART))
    lines = []
    for paragraph in body.iter(f"{_WORDS}p"):
        pieces = []
        for piece in paragraph.iter():
            if piece.tag == f"{_WORDS}t":
                pieces.append(piece.text or "")
            elif piece.tag in (f"{_WORDS}tab", f"{_WORDS}br"):
                pieces.append("\t" if piece.tag.endswith("tab") else "\n")
        lines.append("".join(pieces))
    return "\n".join(lines)


def main() -> int:
    packages, kind, source, target = sys.argv[1:]
    sys.path.append(packages)
    text = {".pdf": pdf, ".docx": docx}[kind](Path(source))
    Path(target).write_text(text[:_LONGEST], encoding="utf-8", errors="replace")
    return 0


if __name__ == "__main__":
    sys.exit(main())
