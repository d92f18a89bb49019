"""A process that has Prefect and all flows loaded, and forks one for each run that `workers.engine` asks for.

    python -m workers.warm SOCKET

It does nothing else: no threads, no connections, so that a fork is a clean start. A run has its own environment,
directory and output, those of whoever asked. When the one who asked goes away its run is killed; when this process
goes away all are. `workers.engine` starts runs without it then.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.engine import BEGUN, ENDED, LENGTH
from workers.parts import end_with_parent

ENGINE = "prefect.engine"
LOADED = ("prefect.flow_engine", "prefect.task_engine", "prefect._internal.metrics", "prefect.events.worker")
ASK_SECONDS = 5.0  # for the whole of a request to arrive
PEER = struct.Struct("3i")  # process, user, group
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Request:
    """What somebody wants to be run."""

    env: dict[str, str]
    cwd: str
    argv: list[str]
    output: tuple[int, ...]  # standard input, output and error


def main() -> None:
    end_with_parent()
    where = Path(sys.argv[1])
    module = sys.argv[2] if len(sys.argv) > 2 else ENGINE
    if module == ENGINE:
        load()
    gc.collect()
    gc.freeze()  # what is loaded stays shared: a collection in a run must not copy it
    request = serve(listen(where))
    if request is not None:
        become(request, module)


def load() -> None:
    """Import whatever runs will need."""
    import flows

    for name in LOADED:
        importlib.import_module(name)
    for each in pkgutil.iter_modules(flows.__path__, "flows."):
        importlib.import_module(each.name)


def listen(where: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        where.unlink()
    door = socket.socket(socket.AF_UNIX)
    before = os.umask(0o077)
    try:
        with contextlib.chdir(where.parent):
            door.bind(where.name)
    finally:
        os.umask(before)
    door.listen(64)
    return door


def serve(door: socket.socket) -> Request | None:
    """Fork for whoever asks. Returns in a forked process, with what it is to do; None when told to stop."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    stopping: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: stopping.append(number))
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    runs: dict[int, socket.socket] = {}
    while not stopping:
        lines = {line.fileno(): process for process, line in runs.items()}
        ready, _, _ = select.select([door, woken, *lines], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        for process, code in _ended():
            line = runs.pop(process)
            lines.pop(line.fileno())
            with contextlib.suppress(OSError):
                line.sendall(ENDED.pack(code))
            line.close()
        for line in ready:
            if line in lines:
                _heed(lines[line], runs[lines[line]])
        if door in ready and (asked := _receive(door)) is not None:
            line, request = asked
            process = os.fork()
            if process == 0:
                for each in (door, line, *runs.values()):
                    each.close()
                for end in (woken, wake):
                    os.close(end)
                return request
            for file in request.output:
                os.close(file)
            runs[process] = line
    for process in runs:
        os.kill(process, signal.SIGKILL)
    return None


def _ended() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], os.waitstatus_to_exitcode(found[1])


def _heed(process: int, line: socket.socket) -> None:
    """Pass signals on; when the line is dead nobody wants the run any more."""
    try:
        told = line.recv(16)
    except OSError:
        told = b""
    for number in told or [signal.SIGKILL]:
        os.kill(process, number)  # it has not been waited for: the number is still its own


def _receive(door: socket.socket) -> tuple[socket.socket, Request] | None:
    """The next request; None when whoever knocked is not ours, or has gone."""
    line, _ = door.accept()
    files: list[int] = []
    try:
        line.settimeout(ASK_SECONDS)
        _, user, _ = PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
        head, files, _, _ = socket.recv_fds(line, LENGTH.size, 3)
        if user != os.getuid() or len(head) < LENGTH.size or len(files) != 3:
            raise OSError("not a request of ours")
        wanted: dict[str, Any] = json.loads(_exactly(line, *LENGTH.unpack(head)))
        line.sendall(BEGUN)
        line.settimeout(None)
        return line, Request(**wanted, output=tuple(files))
    except (OSError, ValueError, TypeError):
        for file in files:
            os.close(file)
        line.close()
        return None


def _exactly(line: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        if not (more := line.recv(length - len(found))):
            raise OSError("the line was cut")
        found += more
    return bytes(found)


def become(request: Request, module: str) -> None:
    """Turn this fork into what was asked for, as if it had been started afresh."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for each in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for place, file in enumerate(request.output):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(request.env)
    os.chdir(request.cwd)
    random.seed()
    if module == ENGINE:
        _forget_settings()
    sys.argv = [module, *request.argv]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the module is known already
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _forget_settings() -> None:
    """What was read from the warm process's environment is read again, from the run's own."""
    from prefect.context import refresh_global_settings_context

    from postroom.settings import settings

    refresh_global_settings_context()
    settings.cache_clear()


if __name__ == "__main__":
    main()
