"""What a process and all its descendants use, read from /proc; and making sure that none is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Use:
    """Memory (bytes not shared with others) and number of processes."""

    memory: int = 0
    processes: int = 0


def descendants(root: int) -> list[int]:
    """The process and everything below it, parents first."""
    found, ahead = [], [root]
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    ahead += [int(child) for child in (task / "children").read_text().split()]
    return found


def use_of(root: int) -> Use:
    """What the tree below `root` uses now."""
    memory, count = 0, 0
    for pid in descendants(root):
        with contextlib.suppress(OSError, IndexError, ValueError):
            _, resident, shared, *_ = (int(field) for field in Path(f"/proc/{pid}/statm").read_text().split())
            memory += max(0, resident - shared) * _PAGE
            count += 1
    return Use(memory, count)


def disk_use(root: Path, stop_at: int) -> int:
    """Bytes below a directory, not following links; stops counting once past `stop_at`."""
    total, ahead = 0, [str(root)]
    while ahead and total <= stop_at:
        with contextlib.suppress(OSError), os.scandir(ahead.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                    else:
                        total += max(entry.stat(follow_symlinks=False).st_blocks * 512, 512)
    return total


def _started(pid: int) -> str | None:
    """When a process began: with its number, its identity."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in "ZX" else after_name[19]


def end_tree(root: int, *, deadline: float = 5.0) -> None:
    """Kill a process with everything below it and return when all are gone."""
    known = {pid: _started(pid) for pid in descendants(root)}
    for pid in known:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        if not any(began is not None and _started(pid) == began for pid, began in known.items()):
            return
        time.sleep(0.01)
