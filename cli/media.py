"""`postroom media`: the media pipeline on files, without any service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli import say
from postroom.errors import BadInput

app = typer.Typer(no_args_is_help=True)


@app.callback()
def media() -> None:
    """Turn pictures into web media."""


@app.command()
def optimise(
    files: Annotated[list[Path], typer.Argument(help="Pictures or documents.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Folder the masters are laid into.", file_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line per file.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do the work, keep nothing.")] = False,
) -> None:
    """Prepare files for the web: AVIF master and fallback for pictures, the rest as documents."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="postroom-media-") as nowhere:
        bad = _optimise(files, Path(nowhere) if dry_run else out, as_json)
    if bad:
        sys.exit(BadInput.exit_code)


def _optimise(files: list[Path], out: Path, as_json: bool) -> int:
    """Work through the files a few at a time, so that a long list is not all in memory; how many were bad."""
    from postroom.media.darkroom import darkroom
    from postroom.media.prepare import prepare_now
    from postroom.media.result import MediaFile, MediaResult
    from postroom.media.shelves import FolderShelf
    from postroom.media.store import MediaStore

    store, room, bad = MediaStore(FolderShelf(out)), darkroom(), 0
    step = room.concurrency * 2
    for at in range(0, len(files), step):
        readable: list[MediaFile] = []
        unreadable: dict[int, str] = {}
        for place, path in enumerate(files[at : at + step]):
            try:
                readable.append(MediaFile(path.name, path.read_bytes()))
            except OSError as error:
                unreadable[place] = error.strerror or type(error).__name__
        done = iter(prepare_now(readable, store, room=room))
        for place, path in enumerate(files[at : at + step]):
            if place in unreadable:
                said = f"{path.name} was left out: it can't be read ({unreadable[place]})"
                unseen = MediaResult(filename=path.name, source_sha256="", kind="document", content_type="")
                shown = {
                    **unseen.model_copy(update={"error": said, "warnings": [said]}).as_json(),
                    **dict.fromkeys(("source_sha256", "kind", "content_type")),  # nobody knows
                }
            else:
                shown = next(done).as_json()
            bad += "error" in shown
            _show(shown, as_json)
    return bad


def _show(shown: dict[str, object], as_json: bool) -> None:
    if as_json:
        say.line(shown)
        return
    files = shown["files"]
    assert isinstance(files, dict)
    for name, size in files.items():
        say.text(f"{shown['filename']}\t{shown.get('sha256')}/{name}\t{size}")
    for warning in shown["warnings"] if isinstance(shown["warnings"], list) else []:
        say.note(str(warning))
