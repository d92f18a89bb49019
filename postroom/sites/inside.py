"""The first program inside a sandbox: takes its rights away, then becomes the untrusted command.

Runs by itself (`python -I -S inside.py SPEC command…`), so it imports nothing of postroom.
SPEC is JSON: {uid, gid, cwd, limits, tunnel: {port, socket} | null, stay}.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _limit(limits: dict[str, int]) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: limits["memory"],
        resource.RLIMIT_FSIZE: limits["file"],
        resource.RLIMIT_NOFILE: 4096,
    }
    if limits.get("processes"):
        wanted[resource.RLIMIT_NPROC] = limits["processes"]
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _give_up_rights(spec: dict[str, Any]) -> None:
    if spec["uid"] is not None and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(spec["gid"], spec["gid"], spec["gid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _limit(spec["limits"])
    os.umask(0o022)
    os.chdir(spec["cwd"])


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _carry(near: socket.socket, path: str) -> None:
    with near, socket.socket(socket.AF_UNIX) as far, contextlib.suppress(OSError):
        far.connect(path)
        back = threading.Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join()


def _tunnel(listener: socket.socket, path: str) -> None:
    """Carry every connection to the one allowed port out through the unix socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    devnull = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # the command's pipes must close when the command ends
        os.dup2(devnull, number)
    while True:
        near, _ = listener.accept()
        threading.Thread(target=_carry, args=(near, path), daemon=True).start()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _stay(command: list[str], spec: dict[str, Any]) -> int:
    """Without a pid namespace: stay as the reaper, so that nothing the command started outlives it."""
    parent = os.getppid()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return 143
    first = os.fork()
    if first == 0:
        _become(command, spec)

    def swept() -> bool:
        """Kill every descendant; orphans come back to us as children, so one look at a time is enough."""
        left = _children(os.getpid())
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def stop(*_: object) -> None:
        while not swept():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)
        os._exit(143)

    signal.signal(signal.SIGTERM, stop)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == first:
            break
    while not swept():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: list[str], spec: dict[str, Any]) -> None:
    try:
        _give_up_rights(spec)
        os.execvpe(command[0], command, os.environ)  # noqa: S606
    except OSError as error:
        print(f"the sandbox could not start {command[0]}: {error}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(126)


def main() -> int:
    spec = json.loads(sys.argv[1])
    command = sys.argv[2:]
    if spec.get("stay"):
        return _stay(command, spec)
    if tunnel := spec.get("tunnel"):
        # bound while a port below 1024 may still be taken
        listener = socket.create_server(("127.0.0.1", tunnel["port"]), backlog=64)
        if os.fork() == 0:
            _give_up_rights(spec)
            _tunnel(listener, tunnel["socket"])
        listener.close()
    _become(command, spec)
    return 126


if __name__ == "__main__":
    sys.exit(main())
