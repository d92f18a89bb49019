"""The process that has the decoders loaded and forks a fresh child for each picture.

    darkroom ──(control: limits + two sockets)──▶ fork server ──fork──▶ child ──▶ dies
        │                                             │ status                │
        └──────────────◀──────────────────────────────┘      job: picture in, masters out

It never looks at a picture itself. A child that outlives its time, or whose caller has hung up,
is killed with its whole process group; how each child ended is written to its status socket.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass

REQUEST = struct.Struct("<III8s")  # seconds, memory in MB, CPU seconds, format
CONTROL_FD, JOB_FD = 0, 3


@dataclass
class Child:
    pid: int
    status: socket.socket
    deadline: float
    reason: str = ""

    def kill(self, reason: str) -> None:
        self.reason = self.reason or reason
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)  # it may not have its own group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def main() -> None:
    control = socket.socket(fileno=CONTROL_FD)
    from postroom.media import develop

    develop.load_decoders()
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_out, False)
    os.set_blocking(wake_in, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's; it hangs up on us
    control.sendall(b"ready\n")

    children: dict[int, Child] = {}
    while True:
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(wake_in, select.POLLIN)
        for child in children.values():
            poll.register(child.status, 0)  # only a hang-up is of interest
        nearest = min((child.deadline for child in children.values() if not child.reason), default=None)
        wait = None if nearest is None else max(0, nearest - time.monotonic()) * 1000 + 1
        ready = dict(poll.poll(wait))
        if wake_in in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_in, 4096)
        for pid in list(children):
            _look_after(children, pid, ready)
        if control.fileno() in ready and not _begin(control, children):
            for child in children.values():
                child.kill("closing")
            return


def _look_after(children: dict[int, Child], pid: int, ready: dict[int, int]) -> None:
    child = children[pid]
    if child.status.fileno() in ready:
        child.kill("hang-up")
    elif time.monotonic() >= child.deadline:
        child.kill("time")
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # whatever it may have started
    with contextlib.suppress(OSError):
        child.status.sendall(f"{child.reason or 'end'} {os.waitstatus_to_exitcode(status)}\n".encode())
    child.status.close()
    del children[pid]


def _begin(control: socket.socket, children: dict[int, Child]) -> bool:
    """Fork a child for the next request; False when the caller has closed the room."""
    from postroom.media import develop

    try:
        request, fds, _, _ = socket.recv_fds(control, REQUEST.size, 2)
    except ConnectionError:
        return False
    if len(request) < REQUEST.size or len(fds) != 2:
        return False
    seconds, memory_mb, cpu_seconds, form = REQUEST.unpack(request)
    develop.load_decoders_of(form.rstrip(b"\0").decode())  # a child could not: it can open no file
    job, status = (socket.socket(fileno=fd) for fd in fds)
    pid = os.fork()
    if pid == 0:
        try:
            _child(job, memory_mb, cpu_seconds)
        finally:
            os._exit(1)
    job.close()
    children[pid] = Child(pid, status, time.monotonic() + seconds)
    return True


def _child(job: socket.socket, memory_mb: int, cpu_seconds: int) -> None:
    from postroom.media import develop, limits, wire

    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(1, CONTROL_FD)  # /dev/null
    os.dup2(job.detach(), JOB_FD)
    os.closerange(JOB_FD + 1, 4096)
    limits.confine(memory_mb=memory_mb, cpu_seconds=cpu_seconds, job_fd=JOB_FD)
    sock = socket.socket(fileno=JOB_FD)
    head, blobs = wire.receive(sock)
    answer, parts = develop.answer(head, blobs["source"])
    wire.send(sock, answer, parts)
    sock.shutdown(socket.SHUT_WR)
    os._exit(0)


if __name__ == "__main__":
    main()
