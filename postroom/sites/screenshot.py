"""A picture of a built page, taken by Chromium in the same sandbox as the build: the page is a stranger's too."""

from __future__ import annotations

import asyncio
import logging
import shutil
import struct
import sys
import tempfile
from pathlib import Path

from postroom.settings import settings
from postroom.sites.sandbox import Cell, Limits, prepare, run_in

log = logging.getLogger("postroom.sites")
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_CAMERA = Path(__file__).with_name("camera.py")
_LARGEST = 8 * 1024 * 1024
# Debian's /usr/bin/chromium is a shell script that looks around; the program behind it does not.
_REAL = ("/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser", "/opt/google/chrome/chrome")


def find_chromium() -> Path | None:
    """The browser of this machine, below /usr or /opt; None when there is none."""
    for name in _REAL:
        if Path(name).is_file():
            return Path(name)
    for name in _NAMES:
        if (found := shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")) is not None:
            return Path(found)
    return None


async def screenshot(dist: Path, page: str = "/", *, width: int = 1200, height: int = 900) -> bytes | None:
    """A PNG of one page of a built site; None when there is no browser, or it would not.

    The browser sees only the pages, over a server of its own inside the sandbox; it has no network.
    A picture is a courtesy: whatever goes wrong here is logged, and the edit goes on.
    """
    browser = find_chromium() if settings().screenshots else None
    if browser is None:
        return None
    try:
        return await _taken(browser, dist, page, width, height)
    except Exception as error:
        log.warning("no picture of %s: %s", page, error)
        return None


async def _taken(browser: Path, dist: Path, page: str, width: int, height: int) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="camera-") as scratch:
        work = Path(scratch) / "work"
        await asyncio.to_thread(work.mkdir)
        cell = Cell(
            work,
            mount="/camera",
            shown={"/run/cell/site": dist, "/run/cell/camera.py": _CAMERA, **_outside_usr(browser)},
            limits=Limits(seconds=40, memory_mb=4096, processes=300, disk_mb=200),
        )
        async with prepare(cell) as ready:
            command = [
                *(str(Path(sys.executable).resolve()), "-I", "-S", ready.seen("/run/cell/camera.py")),
                *(ready.seen("/run/cell/site"), f"{ready.at}/page.png", page, f"{width},{height}", str(browser)),
            ]
            outcome = await run_in(ready, command, cell)
        picture = await asyncio.to_thread(_read, work / "page.png")
    if not outcome.ok or picture is None:
        why = outcome.stopped_by or f"exit code {outcome.code}"
        log.warning("no picture of %s: %s; %s", page, why, " ".join(outcome.lines[-3:]))
        return None
    return picture


def _outside_usr(browser: Path) -> dict[str, Path]:
    home = browser.resolve().parent
    return {} if home.is_relative_to("/usr") else {str(home): home}


def _read(path: Path) -> bytes | None:
    """The file, if it is a PNG of a sensible size and no link."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        return None
    content = path.read_bytes()
    return content if content[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", content[16:20])[0] else None
