"""A part of the local post room: one long-running process, and how to tell that it is ready."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from postroom.errors import OurFault, TimedOut

WITH_PARENT = "POSTROOM_END_WITH_PARENT"


@dataclass(frozen=True)
class Part:
    """What a supervisor needs to start, watch and stop one process."""

    name: str
    argv: list[str]
    ready: Callable[[], bool]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)  # added to the supervisor's own
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    ready_seconds: float = 60.0


class Running:
    """A started part."""

    def __init__(self, part: Part) -> None:
        self.part = part
        part.log.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = part.log.stat().st_size if part.log.exists() else 0
        with part.log.open("ab") as log:
            self.process = subprocess.Popen(
                part.argv,
                env={**os.environ, **part.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the supervisor only, which stops parts in order
            )

    def wait_ready(self, seconds: float | None = None) -> None:
        """Returns when the part answers; raises with the end of its log when it died or took too long."""
        seconds = seconds or self.part.ready_seconds
        deadline = time.monotonic() + seconds
        while not self.part.ready():
            if (code := self.process.poll()) is not None:
                raise OurFault(f"{self.part.name} ended with {code} while starting:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise TimedOut(f"{self.part.name} was not ready after {seconds:.0f} s:\n{self.last_words()}")
            time.sleep(0.1)

    def last_words(self, characters: int = 2000) -> str:
        """The end of what this start wrote to its log."""
        with self.part.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")[-characters:].strip()

    def stop(self) -> int:
        """Ends the process, politely first; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(self.part.stop_signal)
            try:
                self.process.wait(self.part.stop_seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


def start(part: Part) -> Running:
    """The part, started and ready; nothing is left running when it fails to get ready."""
    running = Running(part)
    try:
        running.wait_ready()
    except BaseException:
        running.stop()
        raise
    return running


def end_with_parent() -> None:
    """Asks Linux to end this process when its parent dies, if the parent wished so (WITH_PARENT=1)."""
    if os.environ.get(WITH_PARENT) == "1" and sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGINT)


def port_is_free(port: int) -> bool:
    """Whether 127.0.0.1:port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
