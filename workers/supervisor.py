"""Starts parts in the order they need each other, restarts those that crash, stops them in reverse.

waiting ─▶ starting ─▶ ready ─▶ stopped        a step that runs once: starting ─▶ done
              ▲           │ dies
              └─ restarting (0.5, 1, 2 … 30 s later)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from postroom.errors import OurFault, PostroomError, TimedOut, Unavailable
from workers.parts import Part, Running
from workers.watchman import MARK, end_group, end_marked, group_lives

log = logging.getLogger("postroom.house")
POLL_SECONDS = 0.1
STEADY_SECONDS = 10.0  # a part that was ready for this long has earned a quick restart again
BACKOFF_SECONDS = (0.5, 1, 2, 4, 8, 15, 30)


@dataclass
class Member:
    """A part in the hands of the supervisor."""

    part: Part
    after: tuple[str, ...] = ()
    once: bool = False  # a step that ends by itself, e.g. provisioning
    hint: str = ""  # what a person can do when it does not start
    state: str = "waiting"
    restarts: int = 0
    failures: int = 0  # deaths in a row, each soon after a start
    since: str = ""
    started: float = 0.0
    steady_since: float = 0.0  # when it last became ready
    took: float = 0.0
    running: Running | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def alive(self) -> bool:
        return self.running is not None and self.running.process.poll() is None

    def row(self) -> dict[str, Any]:
        """This part as `status` shows it."""
        pid = self.running.process.pid if self.running and self.alive else None
        return {"name": self.name, "pid": pid, "state": self.state, "restarts": self.restarts, "since": self.since}


class Supervisor:
    """Parts that live and die together. Must be used from one thread: the kernel ties parts to it."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        tell: Callable[[Member, str], None] = lambda *_: None,
        cwd: Path | None = None,
    ) -> None:
        self.mark = secrets.token_hex(8)
        self.members = {member.name: member for member in members}
        self.cwd = cwd
        self._tell = tell
        self._stopping = False
        self._watchman: subprocess.Popen[str] | None = None
        self._guards: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when every part is ready; raises the first failure, and then nothing is left running."""
        self._hire_watchman()
        starts = [asyncio.create_task(self._bring_up(member)) for member in self.members.values()]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for each in starts:
                each.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await self.stop()
            raise
        self._guards = [asyncio.create_task(self._guard(member)) for member in self.members.values() if not member.once]

    async def stop(self) -> None:
        """Ends all parts, each before those it needs, and whatever they left behind."""
        self._stopping = True
        for guard in self._guards:
            guard.cancel()
        await asyncio.gather(*self._guards, return_exceptions=True)
        for member in reversed(self._in_order()):
            if member.running:
                self._enter(member, "stopping")
                await asyncio.to_thread(self._end, member)
            if member.state not in ("done", "waiting"):
                self._enter(member, "stopped")
        watchman = [self._watchman.pid] if self._watchman else []
        await asyncio.to_thread(end_marked, self.mark, but=watchman)
        self._dismiss_watchman()

    def rows(self) -> list[dict[str, Any]]:
        """The long-running parts as `status` shows them."""
        return [member.row() for member in self.members.values() if not member.once]

    def _in_order(self) -> list[Member]:
        """Each part after those it needs; when it was started last does not matter, it may have died meanwhile."""
        order = TopologicalSorter({name: member.after for name, member in self.members.items()})
        return [self.members[name] for name in order.static_order()]

    def longest_start(self) -> float:
        """Seconds after which `start` is over: each part may use up its time, and those that need it theirs."""
        over: dict[str, float] = {}
        for member in self._in_order():
            over[member.name] = max((over[name] for name in member.after), default=0.0) + member.part.ready_seconds
        return max(over.values(), default=0.0)

    async def _bring_up(self, member: Member) -> None:
        for name in member.after:
            await self.members[name].settled.wait()
        begun = time.monotonic()
        if member.once:
            await self._run_once(member)
        else:
            await self._launch(member)
        member.took = time.monotonic() - begun
        member.settled.set()

    async def _run_once(self, member: Member) -> None:
        self._spawn(member)
        code = await self._exit_code(member, member.part.ready_seconds)
        self._forget(member)
        if code is None:
            await asyncio.to_thread(self._end, member)
            raise self._failure(member, TimedOut, f"was not finished after {member.part.ready_seconds:.0f} s")
        if code:
            raise self._failure(member, OurFault if code == 70 else Unavailable, f"ended with {code}")
        member.running = None
        self._enter(member, "done")

    async def _launch(self, member: Member) -> None:
        """Starts a part and returns when it answers."""
        self._spawn(member)
        while not await asyncio.to_thread(member.part.ready):
            waited = time.monotonic() - member.started
            if not member.alive:
                code = member.running.process.returncode if member.running else "?"
                raise self._failure(member, Unavailable, f"ended with {code} while starting")
            if waited > member.part.ready_seconds:
                raise self._failure(member, TimedOut, f"was not ready after {member.part.ready_seconds:.0f} s")
            await asyncio.sleep(min(0.5, POLL_SECONDS + waited / 10))  # asking takes from what is waited for
        member.steady_since = time.monotonic()
        self._enter(member, "ready")

    async def _guard(self, member: Member) -> None:
        """Brings a part back whenever it dies."""
        while not self._stopping:
            if member.alive:
                await asyncio.sleep(POLL_SECONDS * 2)
                continue
            code = member.running.process.returncode if member.running else "?"
            if member.steady_since and time.monotonic() - member.steady_since > STEADY_SECONDS:
                member.failures = 0
            pause = BACKOFF_SECONDS[min(member.failures, len(BACKOFF_SECONDS) - 1)]
            member.restarts, member.failures, member.steady_since = member.restarts + 1, member.failures + 1, 0.0
            self._enter(member, "restarting", f"ended with {code}; starting it again in {pause:g} s")
            await asyncio.to_thread(self._end, member)  # what is left of its group
            await asyncio.sleep(pause)
            try:
                await self._launch(member)
            except Exception as error:  # no room for its log, no process to be had: that passes too
                await asyncio.to_thread(self._end, member)
                self._enter(member, "restarting", str(error).partition("\n")[0])

    def _spawn(self, member: Member) -> None:
        environment = {**member.part.env, MARK: self.mark, "POSTROOM_END_WITH_PARENT": "1"}
        member.started = time.monotonic()
        member.running = Running(replace(member.part, env=environment))
        self._report(f"+{member.running.process.pid} {int(member.part.stop_signal)}")
        self._enter(member, "starting")

    def _end(self, member: Member) -> None:
        if member.running:
            process = member.running.process
            if process.poll() is None or group_lives(process.pid):
                if process.poll() is None:
                    process.send_signal(member.part.stop_signal)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(member.part.stop_seconds)
                end_group(process.pid, signal.SIGTERM if process.poll() is not None else signal.SIGKILL, 3.0)
            process.wait()
            self._forget(member)

    async def _exit_code(self, member: Member, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while True:
            if not member.alive or time.monotonic() > deadline:
                return member.running.process.poll() if member.running else None
            await asyncio.sleep(POLL_SECONDS)

    def _failure(self, member: Member, kind: type[PostroomError], what: str) -> PostroomError:
        words = member.running.last_words() if member.running else ""
        lines = [f"{member.name} {what}.", *(f"    {line}" for line in words.splitlines()[-12:])]
        lines.append(f"Its log: {member.part.log}")
        if member.hint:
            lines.append(member.hint)
        self._enter(member, "failed", what)
        return kind("\n".join(lines))

    def _enter(self, member: Member, state: str, remark: str = "") -> None:
        member.state, member.since = state, datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._tell(member, remark)
        except Exception as error:  # a full disk must not keep a part from being started again
            log.warning("%s is %s (%s), but that can't be told: %r", member.name, state, remark or "-", error)

    def _hire_watchman(self) -> None:
        environment = {**os.environ, MARK: self.mark}
        self._watchman = subprocess.Popen(
            [sys.executable, "-m", "workers.watchman"],
            stdin=subprocess.PIPE, text=True, env=environment, start_new_session=True, cwd=self.cwd,
        )  # fmt: skip

    def _dismiss_watchman(self) -> None:
        if self._watchman and self._watchman.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._watchman.stdin.close()
            self._watchman.wait(30)
            self._watchman = None

    def _report(self, line: str) -> None:
        if self._watchman and self._watchman.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._watchman.stdin.write(line + "\n")
                self._watchman.stdin.flush()

    def _forget(self, member: Member) -> None:
        if member.running:
            self._report(f"-{member.running.process.pid}")


async def until_told(to_stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Waits for the work, unless told to stop first; returns whether the work was finished."""
    task, told = asyncio.ensure_future(work), asyncio.create_task(to_stop.wait())
    try:
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return False
        task.result()
        return True
    finally:
        told.cancel()
