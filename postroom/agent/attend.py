"""Watches over an agent's process: takes in what it says, ends it when a limit is passed, leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

from postroom.agent.answer import as_object, mismatch, unwrapped
from postroom.agent.gate import Gate
from postroom.agent.job import Job, OnLine, OnProgress, Outcome, Progress, Result, error_of
from postroom.agent.trace import Trace, Usage, summary_of
from postroom.agent.verdict import Verdict
from postroom.errors import LimitReached, PostroomError, Unparsable, sanitise
from postroom.sites.processes import descendants, disk_use, end_tree, use_of

_GRACE_INTERRUPT = 2.0
_GRACE_TERM = 5.0
_GRACE_STOPPED = 1.5  # whoever stops us wants the place
_GRACE_EXIT = 10.0
_GRACE_CANCELLED = 1.0  # whoever cancels us waits for the work to be let go
_LOOK = 0.25  # how often limits are looked at
_MB = 1024 * 1024
_DISK_EVERY = 2.0
DISK_MB = 2048
_SIGNS = {"alive": "token"} | {k: k for k in ("begun", "said", "tool", "tool-end", "turn")}
Cut = tuple[Outcome, PostroomError]


class Attended:
    """One run of an agent's process."""

    def __init__(
        self,
        job: Job,
        process: asyncio.subprocess.Process,
        door: Gate,
        *,
        on_line: OnLine | None,
        on_progress: OnProgress | None,
        stop: asyncio.Event | None,
    ) -> None:
        self.job, self.process, self.door = job, process, door
        self.on_line, self.on_progress, self.stop = on_line, on_progress, stop
        self.trace, self.verdict = Trace(), Verdict()
        self.alive = time.monotonic()
        self.looked_at_disk = 0.0
        self.turns = 0

    async def to_the_end(self, order: bytes) -> Result:
        """Hands the order over and gives the result, however the run ended."""
        readers = [asyncio.create_task(self._events()), asyncio.create_task(self._stderr())]
        try:
            with contextlib.suppress(ConnectionError):  # a child that died at once has said why
                assert self.process.stdin is not None
                self.process.stdin.write(order)
                await self.process.stdin.drain()
            cut = await self._until_done_or_cut(readers)
            if cut is not None:
                await self._let_go(_GRACE_INTERRUPT, _GRACE_STOPPED if cut[0] == "interrupted" else _GRACE_TERM)
            await asyncio.wait(readers, timeout=_GRACE_EXIT)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        return self._result(cut)

    async def _until_done_or_cut(self, readers: list[asyncio.Task[None]]) -> Cut | None:
        """None when the child ended by itself; else why it has to be stopped. Raises what a callback raised."""
        ended = asyncio.create_task(self.process.wait())
        stopped = asyncio.create_task((self.stop or asyncio.Event()).wait())
        finished = 0.0
        try:
            while not ended.done():
                await asyncio.wait({ended, stopped}, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                for reader in readers:
                    if reader.done():
                        reader.result()
                now = time.monotonic()
                if self.verdict.result is not None:  # it only has to leave
                    finished = finished or now
                    if now - finished > _GRACE_EXIT:
                        return None
                    await asyncio.wait({ended}, timeout=_LOOK)
                elif cut := self._limit_passed(now, stopped.done()):
                    return cut
            return None
        finally:
            ended.cancel()
            stopped.cancel()

    def _limit_passed(self, now: float, stopped: bool) -> Cut | None:
        if stopped:
            return "interrupted", error_of("interrupted")
        if now - self.trace.began > self.job.seconds:
            return "timeout", error_of("timeout")
        if now - self.alive > self.job.idle_seconds:
            return "stuck", error_of("stuck")
        used = use_of(self.process.pid).memory // _MB
        self.trace.peak_mb = max(self.trace.peak_mb, used)
        if used > self.job.memory_mb:
            why = f"the agent used {used} MB of memory; its limit is {self.job.memory_mb} MB"
            return "failed", LimitReached(why, limit="memory")
        if self.job.workspace is not None and now > self.looked_at_disk + _DISK_EVERY:
            self.looked_at_disk = now
            if disk_use(self.job.workspace, DISK_MB * _MB) > DISK_MB * _MB:
                return "failed", LimitReached(f"the workspace grew beyond {DISK_MB} MB", limit="disk")
        return None

    async def _let_go(self, gently: float, firmly: float) -> None:
        if self.process.returncode is None and self.process.stdin is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                self.process.stdin.write(b"interrupt\n")
            await self._gone_within(gently)
        if self.process.returncode is None:
            for pid in descendants(self.process.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            await self._gone_within(firmly)
        await self._end()

    async def _gone_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), seconds)

    async def _end(self) -> None:
        """SIGKILL to whatever is left of the family; returns when all are gone."""
        if self.process.returncode is None:  # else its number may be another's by now
            await asyncio.shield(asyncio.create_task(asyncio.to_thread(end_tree, self.process.pid)))
            await self._gone_within(_GRACE_EXIT)

    async def leave_nothing(self) -> None:
        """No process of this run remains, however it ended; a second cancellation kills at once."""
        try:
            if self.process.returncode is None and self.verdict.result is None:
                await self._let_go(_GRACE_CANCELLED, _GRACE_CANCELLED)
        finally:
            await self._end()
            if self.process.stdin is not None:
                self.process.stdin.close()

    async def _events(self) -> None:
        assert self.process.stdout is not None
        async for line in _lines(self.process.stdout):
            try:
                event = json.loads(line)
            except ValueError:
                self._say(line)
                continue
            if isinstance(event, dict):
                self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        kind = str(event.get("event"))
        if kind in _SIGNS:
            self.alive = time.monotonic()
        self.trace.note(event)
        self.verdict.note(event)
        match kind:
            case "turn":
                self.turns += 1
            case "said":
                self._say(str(event.get("text", "")))
            case "tool":
                self._say(f"{event.get('name')} {summary_of(event.get('input') or {})}")
            case "refused":
                self._say(f"refused: {event.get('name')}: {event.get('why')}")
        what = _SIGNS.get(kind, kind)
        if self.on_progress is not None and (kind in _SIGNS or kind in ("refused", "retry")):
            self.on_progress(Progress(what, self.trace.now(), self.turns, event.get("name")))  # type: ignore[arg-type]

    async def _stderr(self) -> None:
        assert self.process.stderr is not None
        async for line in _lines(self.process.stderr):
            self._say(line)

    def _say(self, text: str) -> None:
        if self.on_line is not None:
            for line in text.splitlines():
                self.on_line(f"[{self.job.correlation}] {sanitise(line, limit=2000)}")

    def _result(self, cut: Cut | None) -> Result:
        self.trace.seconds = self.trace.now()
        raw = self.verdict.result or {}
        schema = self.job.schema
        self.verdict.resets_at = self.door.resets_at or self.verdict.resets_at
        outcome, error = cut or self.verdict.reach(wants_output=schema is not None, exit_code=self.process.returncode)
        output = raw.get("output") if schema is None else unwrapped(raw.get("output"), as_object(schema)[1])
        if outcome == "done" and schema is not None and (wrong := mismatch(output, schema)):
            outcome, error = "failed", Unparsable(f"the agent's answer does not match its schema: {wrong}")
        return Result(
            outcome=outcome,
            driver="claude",
            output=output,
            text=str(raw.get("text") or "\n".join(self.trace.said[-1:])),
            turns=int(raw.get("turns") or self.turns),
            usage=Usage.of(raw.get("usage")) if raw else self.trace.usage,
            cost_usd=float(raw.get("cost") or 0.0),
            error=error,
            trace=self.trace,
        )


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # a line longer than any we make: drop it, keep reading
            continue
        if not line:
            return
        yield line.decode("utf-8", "replace").rstrip("\r\n")
