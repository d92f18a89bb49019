"""Runs a command nobody trusts: as nobody, in an empty house, with no way out, for a limited time.

    full   bubblewrap: own mount, pid, network, ipc and host-name namespaces; only the workspace is
           writable; /proc and /tmp are its own; a user of its own (a real one when we are root,
           else a user namespace)
    weak   only a user of its own (when we are root), a scrubbed environment and limits;
           for hosts that forbid namespaces, and only when POSTROOM_SANDBOX says so

Both: limits on time, memory, processes, output and disk; whatever the command started is gone afterwards,
also when the parent is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postroom.errors import Misconfigured, sanitise
from postroom.settings import settings
from postroom.sites.cell import INSIDE, Cell, Limits, bubblewrap, spec, strange_uid, write_private
from postroom.sites.processes import disk_use, end_tree, use_of
from postroom.sites.tunnel import tunnel

__all__ = ["Cell", "Layer", "Limits", "Outcome", "Prepared", "layers", "prepare", "run"]

_MB = 1024 * 1024
_LOOK_SECONDS = 0.2
_MOST_LINES = 20_000
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class Layer:
    """One wall of the sandbox: is it up, and what is it made of."""

    name: str
    on: bool
    how: str


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, or the limit that ended it."""

    code: int
    stopped_by: str | None
    seconds: float
    peak_memory: int
    lines: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.code == 0 and self.stopped_by is None


def _works(bwrap: str, own_user: bool) -> str | None:
    """None when this kind of sandbox can be made here, else what the system said."""
    with tempfile.TemporaryDirectory() as scratch:
        private, work = Path(scratch, "private"), Path(scratch, "work")
        private.mkdir()
        work.mkdir()
        cell = Cell(work)
        uid = strange_uid() if own_user else None
        write_private(cell, private, uid)
        # in "/": the empty directory is ours, the command's user may not be able to enter it
        line = [*bubblewrap(cell, private, uid, bwrap=bwrap, cwd="/"), "/usr/bin/true"]
        tried = subprocess.run(line, env=cell.env(), capture_output=True, text=True, timeout=20, check=False)
    return None if tried.returncode == 0 else (tried.stderr.strip() or f"exit code {tried.returncode}")


@functools.lru_cache(maxsize=1)
def _full() -> tuple[str, bool]:
    """The bubblewrap to use and whether commands get a real user of their own; raises Misconfigured."""
    weaker = "run `make setup`, or choose POSTROOM_SANDBOX=weak if this host forbids namespaces"
    bwrap = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if bwrap is None:
        raise Misconfigured(f"the sandbox needs bubblewrap (bwrap), which is not installed; {weaker}")
    said = []
    for own_user in (True, False) if os.geteuid() == 0 else (False,):
        problem = _works(bwrap, own_user)
        if problem is None:
            return bwrap, own_user
        said.append(problem)
    raise Misconfigured(f"bubblewrap can't make a sandbox here ({'; '.join(said)}); {weaker}")


def layers() -> tuple[Layer, ...]:
    """Which walls are up on this machine with these settings; raises Misconfigured if the chosen mode can't be had."""
    limits = Layer("limits", True, "time, memory, processes, output and disk are watched and cut off")
    environment = Layer("environment", True, "an allow-list, nothing inherited")
    root = os.geteuid() == 0
    if settings().sandbox == "weak":
        chosen = "off by POSTROOM_SANDBOX=weak"
        return (
            Layer("user", root, "an unprivileged user of its own" if root else "ours: only root can give it another"),
            environment,
            limits,
            *(Layer(name, False, chosen) for name in ("files", "processes", "network")),
        )
    _, own_user = _full()
    return (
        Layer("user", True, "an unprivileged user of its own" if own_user else "nobody, in a user namespace"),
        environment,
        limits,
        Layer("files", True, "mount namespace: only the workspace is writable, the system is read-only"),
        Layer("processes", True, "pid namespace: own /proc, all end together"),
        Layer("network", True, "network namespace: nothing, or one address through a tunnel"),
    )


@dataclass(frozen=True)
class Prepared:
    """A cell ready for commands: put `argv` in front of one and start it with exactly `env`."""

    argv: tuple[str, ...]
    env: dict[str, str]
    at: str  # where the workspace is, seen from inside
    private: Path
    shown: Mapping[str, str] = field(default_factory=dict)  # only where there are no mounts: where things really are

    def seen(self, inside: str) -> str:
        """The path, inside, of something that the cell shows."""
        return self.shown.get(inside, inside)

    def wrapper(self, program: Sequence[str], *, keep: Sequence[str] = ()) -> Path:
        """An executable that runs `program` in the cell with the arguments it is given.

        For libraries that start a program by its path. Of the starter's environment only the
        variables named in `keep` go in; values are never written down.
        """
        path = self.private / "enter"
        path.write_text(
            f"#!{Path(sys.executable).resolve()} -IS\n"
            "import json, os, sys\n"
            f"argv, env, keep = json.loads({json.dumps(json.dumps([[*self.argv, *program], self.env, list(keep)]))})\n"
            "env.update({name: os.environ[name] for name in keep if name in os.environ})\n"
            "os.execve(argv[0], argv + sys.argv[1:], env)\n"
        )
        path.chmod(0o700)
        return path


def _hand_over(directory: Path, uid: int) -> None:
    """Make the workspace the command's own, never following a link out of it."""
    os.chown(directory, uid, uid, follow_symlinks=False)
    for _, directories, files, at in os.fwalk(directory, follow_symlinks=False):
        for name in (*directories, *files):
            os.chown(name, uid, uid, dir_fd=at, follow_symlinks=False)


def _weak_links(cell: Cell) -> None:
    """Without mounts, what is shown below the workspace is a link, and the rest is where it is anyway."""
    for inside, outside in cell.shown.items():
        if not inside.startswith(f"{cell.mount}/"):
            continue
        link = cell.workspace / inside.removeprefix(f"{cell.mount}/")
        link.parent.mkdir(parents=True, exist_ok=True)
        scratch = {path.removeprefix(f"{inside}/") for path in cell.scratch if path.startswith(f"{inside}/")}
        if not scratch:
            link.symlink_to(outside.resolve())
            continue
        link.mkdir()  # a directory of links, so that it can hold scratch directories of its own
        for child in outside.resolve().iterdir():
            if child.name not in scratch:
                (link / child.name).symlink_to(child)
        for name in scratch:
            (link / name).mkdir(parents=True)


@contextlib.asynccontextmanager
async def prepare(cell: Cell) -> AsyncIterator[Prepared]:
    """A cell to run commands in; its tunnel is open and its private files exist while inside the block."""
    weak = settings().sandbox == "weak"
    bwrap, own_user = ("", os.geteuid() == 0) if weak else await asyncio.to_thread(_full)
    uid = strange_uid() if own_user else None
    private = Path(tempfile.mkdtemp(prefix="cell-"))
    try:
        await asyncio.to_thread(write_private, cell, private, uid)
        if weak:
            await asyncio.to_thread(_weak_links, cell)
        if uid is not None:
            await asyncio.to_thread(_hand_over, cell.workspace, uid)
        if weak:
            at = str(cell.workspace.resolve())
            python = str(Path(sys.executable).resolve())
            line = [python, "-I", "-S", str(INSIDE), spec(cell, uid, at, stay=True)]
            real = {inside: str(outside.resolve()) for inside, outside in cell.shown.items()}
            yield Prepared(tuple(line), cell.env(), at, private, real)
            return
        line = bubblewrap(cell, private, uid, bwrap=bwrap)
        async with contextlib.AsyncExitStack() as stack:
            if cell.allow_tcp:
                await stack.enter_async_context(tunnel(private / "out" / "socket", *cell.allow_tcp))
            yield Prepared(tuple(line), cell.env(), cell.mount, private)
    finally:
        shutil.rmtree(private, ignore_errors=True)


async def _watch(pid: int, cell: Cell, seen: dict[str, int]) -> str:
    """Return the name of the first limit that is passed."""
    limits, ends = cell.limits, time.monotonic() + cell.limits.seconds
    look_at_disk = 0.0
    while True:
        now = time.monotonic()
        if now >= ends:
            return f"time limit of {limits.seconds:g} s"
        use = use_of(pid)
        seen["peak"] = max(seen["peak"], use.memory)
        if use.memory > limits.memory_mb * _MB:
            return f"memory limit of {limits.memory_mb} MB"
        if use.processes > limits.processes + 4:  # bubblewrap, its init and ours are not the command's
            return f"limit of {limits.processes} processes"
        if now >= look_at_disk:
            look_at_disk = now + 1
            if await asyncio.to_thread(disk_use, cell.workspace, limits.disk_mb * _MB) > limits.disk_mb * _MB:
                return f"disk limit of {limits.disk_mb} MB"
        await asyncio.sleep(min(_LOOK_SECONDS, max(0.01, ends - time.monotonic())))


class _Output:
    """The command's output, passed on line by line up to its limit.

    Past the limit it is still read, and dropped: a pipe nobody reads would keep the process from being waited for.
    """

    def __init__(self, limit: int, on_line: OnLine | None) -> None:
        self.kept: list[str] = []
        self.full: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._limit, self._on_line = limit, on_line
        self._bytes = self._lines = 0

    def _say(self, raw: bytes) -> None:
        line = sanitise(raw.decode("utf-8", "replace").rstrip("\r"), limit=4000)
        self.kept.append(line)
        del self.kept[:-400]
        if self._on_line is not None:
            with contextlib.suppress(Exception):  # a listener that fails must not stop the reading
                self._on_line(line)

    async def read(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stream.read(65536):
            if self.full.done():
                continue
            *lines, rest = (rest + data).split(b"\n")
            self._bytes += len(data)
            self._lines += len(lines)
            if self._bytes > self._limit:
                self.full.set_result(f"output limit of {self._limit // _MB} MB")
                continue
            if self._lines > _MOST_LINES:
                self.full.set_result(f"output limit of {_MOST_LINES} lines")
                continue
            if len(rest) > 65536:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._say(line)
        if rest and not self.full.done():
            self._say(rest)


async def run(command: Sequence[str], cell: Cell, *, on_line: OnLine | None = None) -> Outcome:
    """Run a command in the cell to its end, or to the first limit it passes; nothing of it is left afterwards."""
    async with prepare(cell) as ready:
        return await run_in(ready, command, cell, on_line=on_line)


async def run_in(ready: Prepared, command: Sequence[str], cell: Cell, *, on_line: OnLine | None = None) -> Outcome:
    """The same in a cell that was prepared before."""
    began, seen = time.monotonic(), {"peak": 0}
    process = await asyncio.create_subprocess_exec(
        *ready.argv,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=ready.env,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None
    output = _Output(cell.limits.output_mb * _MB, on_line)
    reading = asyncio.create_task(output.read(process.stdout))
    watching = asyncio.create_task(_watch(process.pid, cell, seen))
    waiting = asyncio.create_task(process.wait())
    stopped_by: str | None = None
    try:
        first: set[asyncio.Future[Any]] = {watching, waiting, output.full}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if output.full.done():
            stopped_by = output.full.result()
        elif not waiting.done():
            stopped_by = watching.result()
    finally:
        watching.cancel()
        ending = asyncio.create_task(asyncio.to_thread(end_tree, process.pid))
        await asyncio.shield(ending)
        await asyncio.shield(waiting)
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(reading, 2)
        output.full.cancel()
    return Outcome(process.returncode or 0, stopped_by, time.monotonic() - began, seen["peak"], tuple(output.kept))
