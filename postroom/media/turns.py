"""Of equal pictures at the same time one is developed; the others wait their turn and find it done.

A turn is a lock on a file of this machine, so it holds between threads and between processes,
and the kernel gives it back when its holder is killed. Two machines may still develop the same
picture at once: they store the same bytes under the same key, so that costs time and nothing else.
"""

from __future__ import annotations

import fcntl
import functools
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_AGAIN = 0.05


@contextmanager
def turn(source_sha256: str, give_up: Callable[[], None]) -> Iterator[None]:
    """Hold the turn of these bytes; `give_up` is asked while waiting and may raise."""
    path = _folder() / f"{source_sha256}.turn"
    handle = _locked(path)
    while handle is None:
        give_up()
        time.sleep(_LOOK_AGAIN)
        handle = _locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock goes, or we might remove the next holder's
        os.close(handle)


def _locked(path: Path) -> int | None:
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.stat().st_ino == os.fstat(handle).st_ino:
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass  # another has it, or has just removed the file we locked
    os.close(handle)
    return None


@functools.lru_cache(maxsize=1)
def _folder() -> Path:
    """A folder only we can write to, the same for every process of this user."""
    shared = Path(tempfile.gettempdir()) / f"postroom-turns-{os.geteuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    found = shared.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        return shared
    return Path(tempfile.mkdtemp(prefix="postroom-turns-"))  # someone else took the name
