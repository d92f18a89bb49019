"""The readable text of a document that came by mail: pdf, docx, and plain text of any kind.

A document is a stranger's bytes, and a small one can be a large amount of work. So it is read in the
sandbox: no network, nothing else to see, limits on time and memory.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from postroom.agent.prompt import clean
from postroom.sites.sandbox import Cell, Limits, prepare, run_in

_LONGEST = 50_000  # characters
_LARGEST = 30 * 1024 * 1024
_PLAIN = (".txt", ".md", ".markdown", ".csv", ".tsv", ".text")
_PROGRAM = "/run/reading/program.py"
_PACKAGES = "/run/reading/packages"


async def readable(document: Path, *, on_line: Callable[[str], None] | None = None) -> str | None:
    """The document's text, cleaned and cut to a length; None when it has none that can be read."""
    kind = document.suffix.casefold()
    if kind not in (".pdf", ".docx", *_PLAIN) or not 0 < document.stat().st_size <= _LARGEST:
        return None
    if kind in _PLAIN:
        return _or_none(plain(document.read_bytes()))
    with tempfile.TemporaryDirectory(prefix="postroom-reading-") as made:
        desk = Path(made)
        desk.chmod(0o755)
        (desk / "document").write_bytes(document.read_bytes())
        cell = Cell(
            desk,
            shown={_PROGRAM: Path(__file__).with_name("unfold.py"), _PACKAGES: _packages()},
            limits=Limits(seconds=20, memory_mb=512, processes=8, disk_mb=64, file_mb=4),
        )
        python = str(Path(sys.executable).resolve())
        async with prepare(cell) as ready:
            program, packages = ready.seen(_PROGRAM), ready.seen(_PACKAGES)
            line = [python, "-I", "-S", program, packages, kind, "document", "text"]
            outcome = await run_in(ready, line, cell)
        if not outcome.ok:
            if on_line is not None:
                why = outcome.stopped_by or (outcome.lines[-1] if outcome.lines else f"exit code {outcome.code}")
                on_line(f"{document.name} could not be read: {why}")
            return None
        text = desk / "text"
        if text.is_symlink() or not text.is_file():
            return None
        return _or_none(text.read_text(encoding="utf-8", errors="replace"))


def plain(content: bytes) -> str:
    """Text from bytes whose encoding nobody says."""
    for encoding in ("utf-8-sig", "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"):
        try:
            return content[: 4 * _LONGEST].decode(encoding, "ignore" if len(content) > 4 * _LONGEST else "strict")
        except UnicodeDecodeError:
            continue
    return content[:_LONGEST].decode("cp1252", "replace")


def _or_none(text: str) -> str | None:
    cleaned = clean(text, limit=_LONGEST).strip()
    return cleaned or None


def _packages() -> Path:
    import pypdf

    return Path(pypdf.__file__).parent.parent
