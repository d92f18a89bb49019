"""Ends what a supervisor leaves behind when it is killed outright.

The supervisor holds the other end of our standard input and writes a line for every process group it
starts: `+GROUP SIGNAL` and `-GROUP`. When the input ends with a group still on the list, the supervisor
was killed: the groups get their signal, last one first, and SIGKILL when they do not listen.

    supervisor ──pipe──▶ watchman        kill -9 supervisor ⇒ pipe closes ⇒ watchman ends the rest
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

MARK = "POSTROOM_HOUSE"  # every process of one `up` carries it in its environment
GRACE_SECONDS = 10.0


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # a Ctrl-C must not take the last safety away
    groups: dict[int, int] = {}
    for line in sys.stdin:
        words = line.split()
        if words and words[0].startswith("+"):
            groups[int(words[0][1:])] = int(words[1])
        elif words and words[0].startswith("-"):
            groups.pop(int(words[0][1:]), None)
    for group in reversed(list(groups)):
        end_group(group, groups[group], GRACE_SECONDS)
    if mark := os.environ.get(MARK):
        end_marked(mark)


def end_group(group: int, signum: int, seconds: float) -> None:
    """Ends a process group: its signal first, SIGKILL when it is still there after the given time."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)
    deadline = time.monotonic() + seconds
    while group_lives(group):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
            return
        time.sleep(0.05)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _has_more_than_zombies(group)


def _has_more_than_zombies(group: int) -> bool:
    """Whether a group has a member that still runs; a zombie waits for its parent and can't be ended."""
    if not Path("/proc/self/stat").exists():
        return True
    return any(pgrp == group and state != "Z" for state, pgrp in _states())


def _states() -> Iterable[tuple[str, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            after_name = stat.read_text().rpartition(")")[2].split()
            yield after_name[0], int(after_name[2])


def marked(mark: str) -> list[int]:
    """Processes (but us) that carry the mark: also those that left their group, such as runs of a worker."""
    needle, found = f"{MARK}={mark}".encode(), []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if needle in environ.read_bytes().split(b"\0") and int(environ.parent.name) != os.getpid():
                found.append(int(environ.parent.name))
    return found


def end_marked(mark: str, *, seconds: float = 5.0, but: Iterable[int] = ()) -> int:
    """Ends every process that carries the mark; returns how many there were."""
    spared = set(but)
    first = [process for process in marked(mark) if process not in spared]
    for process in first:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while left := [process for process in marked(mark) if process not in spared]:
        if time.monotonic() > deadline:
            for process in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            break
        time.sleep(0.1)
    return len(first)


if __name__ == "__main__":
    main()
