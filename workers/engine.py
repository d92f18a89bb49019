"""The command by which a process worker starts a run: quick where a warm process stands by, else as Prefect does it.

    worker ──starts──▶ this ──socket──▶ workers.warm ──forks──▶ the run
            ◀─ ends as the run ends ─◀ how it ended ─◀
            ── signals ─▶ passed on ─▶ ─────────────────▶

Loading Prefect and the flows takes seconds of CPU, for every run anew. Nothing but the standard library is loaded here.
Whoever kills this kills the run: the warm process sees the socket close.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

WARM = "POSTROOM_WARM"  # where the warm process listens; not set: there is none
LENGTH = struct.Struct("!I")
ENDED = struct.Struct("!i")  # an exit code; negative: the signal that ended it
BEGUN = b"+"
KNOCK_SECONDS = 10.0
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    where = os.environ.get(WARM)
    run = _ask(Path(where)) if where else None
    if run is None:
        os.execv(sys.executable, [sys.executable, "-m", "prefect.engine", *sys.argv[1:]])  # noqa: S606
    _end_as(_attend(run))


def _ask(where: Path) -> socket.socket | None:
    """The line to a run that has begun; None when nobody is there to begin it."""
    request = json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd()), "argv": sys.argv[1:]}).encode()
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(KNOCK_SECONDS)
    try:
        with contextlib.chdir(where.parent):  # the path as a whole may be longer than an address can be
            line.connect(where.name)
        socket.send_fds(line, [LENGTH.pack(len(request))], [0, 1, 2])
        line.sendall(request)
        begun = line.recv(1) == BEGUN
    except OSError as away:
        print(f"no warm process ({away}); starting a cold one", file=sys.stderr)  # noqa: T201
        begun = False
    if not begun:
        line.close()
        return None
    line.settimeout(None)
    return line


def _attend(run: socket.socket) -> int:
    """How the run ended; signals are passed on to it meanwhile."""
    for each in PASSED_ON:
        signal.signal(each, lambda number, _: run.send(bytes([number])))
    told = b""
    while len(told) < ENDED.size:
        more = run.recv(ENDED.size - len(told))
        if not more:  # the warm process was killed, and the run with it
            return -signal.SIGKILL
        told += more
    return int(ENDED.unpack(told)[0])


def _end_as(code: int) -> None:
    """End as the run did, so that whoever waits for us sees the same."""
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
