"""Where pictures are opened: never in this process, always in a child that may be killed.

`Darkroom.develop` hands one picture to a fresh child of the fork server and gives back its masters.
The fork server is started on first use, with an environment that holds none of ours.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import postroom
from postroom.errors import OurFault
from postroom.media import wire
from postroom.media.fork_server import REQUEST
from postroom.settings import Settings, settings

T = TypeVar("T")
_START_SECONDS = 60.0
_PARTS = frozenset({"master.avif", "master.jpg", "master.png", "animation.gif", "animation.webp", "animation.png"})
_FALLBACKS = frozenset({"image/jpeg", "image/png"})


class NotDeveloped(Exception):
    """A picture (never the darkroom) is at fault; the text says why, to be read after its name."""


@dataclass(frozen=True)
class Developed:
    """What a child made of a picture; `parts` are files by name, or the one `document` of an SVG."""

    parts: dict[str, bytes]
    width: int | None
    height: int | None
    fallback_type: str | None
    animated: bool
    warnings: list[str]


@dataclass
class Batch:
    """Jobs that are given up together, when whoever asked for them goes away."""

    cancelled: bool = False
    open: set[socket.socket] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cancel(self) -> None:
        """The fork server sees the hang-up and kills the children."""
        with self.lock:
            self.cancelled = True
            for sock in self.open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def check(self) -> None:
        if self.cancelled:
            raise NotDeveloped("the work was cancelled")

    @contextlib.contextmanager
    def watching(self, sock: socket.socket) -> Any:
        with self.lock:
            self.check()
            self.open.add(sock)
        try:
            yield
        finally:
            with self.lock:
                self.open.discard(sock)


class Darkroom:
    """Children that develop pictures, so many at once, each within limits of memory, CPU, time and pixels."""

    def __init__(self, given: Settings | None = None) -> None:
        self.settings = given or settings()
        self.concurrency = self.settings.media_concurrency or by_machine(self.settings.media_memory_mb)
        self._threads = ThreadPoolExecutor(self.concurrency, thread_name_prefix="darkroom")
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._busy = 0
        self.children = 0  # that were ever asked for: one for each picture that was really worked on

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in one of the room's threads: as many at once as pictures may be."""
        return self._threads.submit(work)

    def develop(self, source: bytes, form: str, batch: Batch | None = None) -> Developed:
        """The masters of one picture; raises NotDeveloped when the picture can't be used. Blocks."""
        batch = batch or Batch()
        for again in (True, False):
            with self._counted():
                job, status = self._ask(form)
                with job, status, batch.watching(status):
                    self._hand_over(job, source, form)
                    head, parts, torn = _read(job)
                    end = _how_it_ended(status)
            if torn is None:
                return _checked(head, parts)
            batch.check()
            if end is not None:
                raise NotDeveloped(self._why(*end))
            if again:
                self._forget_server()  # it died under us: that is not the picture's fault, once
        raise OurFault("the process that develops pictures died twice")

    def close(self) -> None:
        """End the fork server and with it every child."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._forget_server()

    def _hand_over(self, job: socket.socket, source: bytes, form: str) -> None:
        given = self.settings
        job.settimeout(given.media_seconds + 15)
        head = {
            "format": form,
            "profile": given.media_profile,
            "max_pixels": given.media_max_pixels,
            "threads": max(1, cpus() // max(1, min(self._busy, self.concurrency))),
        }
        with contextlib.suppress(OSError):  # a child that is gone already has its reason in the status
            wire.send(job, head, {"source": source})

    def _why(self, reason: str, code: int) -> str:
        given = self.settings
        if reason == "time":
            return f"it took longer than {given.media_seconds} s to decode"
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and reason == "end"):
            return f"it took more than {given.media_seconds} s of CPU time or more memory than there is"
        if code < 0 and -code in (signal.SIGABRT, signal.SIGTRAP):
            return f"it needs more than the {given.media_memory_mb} MB of memory a picture may use"
        if code < 0:
            return f"the decoder crashed on it ({signal.Signals(-code).name})"
        return "the decoder gave up on it"

    @contextlib.contextmanager
    def _counted(self) -> Any:
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def _ask(self, form: str) -> tuple[socket.socket, socket.socket]:
        """Our ends of the job and status sockets of a child that was just asked for."""
        given = self.settings
        job, child_job = socket.socketpair()
        status, child_status = socket.socketpair()
        request = REQUEST.pack(given.media_seconds, given.media_memory_mb, given.media_seconds, form.encode())
        with child_job, child_status, self._lock:
            for _ in range(2):
                try:
                    socket.send_fds(self._running(), [request], [child_job.fileno(), child_status.fileno()])
                    break
                except OSError:
                    self._end_server()
            else:
                raise OurFault("the process that develops pictures can't be reached")
            self.children += 1
        return job, status

    def _running(self) -> socket.socket:
        if self._control is not None and self._server is not None and self._server.poll() is None:
            return self._control
        self._end_server()
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "postroom.media.fork_server"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=None if self.settings.debug else subprocess.DEVNULL,
                env=scrubbed(),
                cwd="/",
                start_new_session=True,
            )
        ours.settimeout(_START_SECONDS)
        try:
            ready = ours.recv(16)
        except OSError:
            ready = b""
        if ready != b"ready\n":
            ours.close()
            self._end_server()
            raise OurFault("the process that develops pictures does not start (POSTROOM_DEBUG=1 shows why)")
        self._control = ours
        return ours

    def _forget_server(self) -> None:
        with self._lock:
            self._end_server()

    def _end_server(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._server is not None:
            try:
                self._server.wait(2)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None


def _read(job: socket.socket) -> tuple[dict[str, Any], dict[str, bytes], Exception | None]:
    try:
        return *wire.receive(job), None
    except (wire.Torn, OSError) as error:
        return {}, {}, error


def _how_it_ended(status: socket.socket) -> tuple[str, int] | None:
    """Why and with which code the child ended, as the fork server says; None when that died too."""
    status.settimeout(15)
    try:
        reason, code = status.recv(64).decode().split()
        return reason, int(code)
    except (OSError, ValueError):
        return None


def _checked(head: dict[str, Any], parts: dict[str, bytes]) -> Developed:
    """The child's answer, believed only as far as it has the right shape."""
    if error := head.get("error"):
        raise NotDeveloped(str(error)[:400])
    warnings = [str(text)[:400] for text in list(head.get("warnings") or [])[:10]]
    if set(parts) == {"document"}:
        return Developed(parts, None, None, None, False, warnings)
    width, height, fallback = head.get("width"), head.get("height"), head.get("fallback_type")
    sound = isinstance(width, int) and isinstance(height, int) and fallback in _FALLBACKS
    if not sound or not {"master.avif"} < set(parts) <= _PARTS or parts["master.avif"][4:8] != b"ftyp":
        raise NotDeveloped("the decoder's answer makes no sense")
    return Developed(parts, width, height, fallback, bool(head.get("animated")), warnings)


def scrubbed() -> dict[str, str]:
    """The whole environment of the fork server: nothing of ours but where Python finds the library."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(postroom.__file__).parent.parent),
        "MALLOC_ARENA_MAX": "2",
        "VIPS_DISC_THRESHOLD": "4g",  # a child can't write temporary files
    }


def cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def by_machine(memory_mb: int) -> int:
    """Pictures at once on this machine: one a core, at most eight, fewer where memory is short."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError):  # in a container there may be less
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        memory = min(memory, int(limit)) if limit.isdigit() else memory
    fits = memory // (memory_mb * 1024 * 1024)
    return max(1, min(8, cpus(), fits))


@functools.lru_cache(maxsize=1)
def darkroom() -> Darkroom:
    """The darkroom of this process, by its settings; closed when the process ends."""
    room = Darkroom()
    atexit.register(room.close)
    return room


__all__ = ["Batch", "Darkroom", "Developed", "NotDeveloped", "darkroom"]
