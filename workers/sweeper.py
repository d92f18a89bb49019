"""The sweeper: work that is open in the book but in nobody's hands gets its run back.

    row in the book                its run in Prefect                     what is done
    ─────────────────────────────  ─────────────────────────────────────  ───────────────────────────────
    attempts used up               any                                    closed: failed
    waiting or lease over          none (never asked, or deleted)         asked for, with the same key
    waiting or lease over          Cancelled (or Cancelling for long)     closed: cancelled
    waiting or lease over          Scheduled, due soon; Paused            left alone
    waiting or lease over          Pending, Running: not for long         left alone: it is about to begin
    waiting or lease over          Pending, Running: for long             rescheduled (its process is gone);
                                                                          "long" doubles each time it was in vain
    waiting or lease over          Completed, Failed, Crashed             rescheduled (the book decides)

Several sensors may sweep at once. The row is touched before its run is moved, and what was touched
a moment ago is left alone; if two still move the same run, the book lets only one body begin.

A run whose body never reaches the book (its code can't be loaded, its machine dies, Prefect can't take it)
is asked for at growing distances, and given up after FRUITLESS times: nothing is tried forever.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum

from prefect.client.schemas.objects import FlowRun, StateType

from postroom.errors import BadInput, Missing, PostroomError
from postroom.ledger import Row, State
from postroom.ledger.entities import event_about
from postroom.ledger.instructions import generation_of
from postroom.ledger.leases import TAKE_OVER
from postroom.settings import Settings
from workers.asking import Asking
from workers.intake import BookCalls

log = logging.getLogger("postroom.sweeper")
JOBS = ("mail", "task", "change", "edit")
STEP = 200  # rows looked at together
FRUITLESS = 20


class Do(Enum):
    """What a row needs."""

    NOTHING = "left alone"
    FAIL = "closed: attempts used up"
    CANCEL = "closed: cancelled"
    ASK = "asked for"
    RESCHEDULE = "rescheduled"


def judge(row: Row, run: FlowRun | None, s: Settings, now: datetime) -> Do:
    """What an unpaid row needs, given its run: the table above, as a function."""
    if row.exhausted:
        return Do.FAIL
    todo = _needs(row, run, s, now)
    waits = run is not None and run.state is not None and run.state.type is StateType.SCHEDULED  # maybe for a slot
    if todo in (Do.ASK, Do.RESCHEDULE) and fruitless(row) >= FRUITLESS and not waits:
        return Do.FAIL
    return todo


def _needs(row: Row, run: FlowRun | None, s: Settings, now: datetime) -> Do:
    if run is None or run.state is None:
        return Do.ASK
    stood = now - run.state.timestamp
    lately = stood < timedelta(seconds=s.pending_seconds * patience(row))
    match run.state.type:
        case StateType.SCHEDULED:
            due = run.next_scheduled_start_time or run.state.state_details.scheduled_time or now
            soon = timedelta(seconds=max(30.0, 2 * s.sweep_seconds))
            return Do.NOTHING if due <= now + soon else Do.RESCHEDULE
        case StateType.PAUSED:
            return Do.NOTHING
        case StateType.PENDING:
            return Do.NOTHING if lately else Do.RESCHEDULE
        case StateType.CANCELLING:
            return Do.NOTHING if lately else Do.CANCEL
        case StateType.CANCELLED:
            return Do.CANCEL
        case StateType.RUNNING if row.state is State.WAITING:
            return Do.NOTHING if lately else Do.RESCHEDULE
        case StateType.RUNNING:  # its lease is over; but a body that began just now has yet to take its own
            grace = timedelta(seconds=min(s.pending_seconds, TAKE_OVER * s.promise_seconds) * patience(row))
            return Do.NOTHING if stood < grace else Do.RESCHEDULE
    return Do.RESCHEDULE


def fruitless(row: Row) -> int:
    """How many of the runs that were asked for ended before their body took the lease."""
    return max(0, row.asked - 1 - row.fence)


def patience(row: Row) -> int:
    """How many times as long as usual to wait for a body that has not begun: twice for each time it was in vain.

    A crowded machine starts processes slowly. Asking for more of them at the same pace makes it slower still,
    until none gets anywhere.
    """
    return 1 << min(fruitless(row), 4)


def why_given_up(row: Row) -> str:
    """The reason that is written on the dead letter."""
    if not row.exhausted:
        return f"its run was asked for {row.asked} times, and its body never began"
    said = f"; the last said: {row.reason}" if row.reason else ""
    return f"attempts used up: {row.attempts} of {row.max_attempts}{said}"


class Sweeper:
    """Looks at unpaid rows, job by job."""

    def __init__(self, asking: Asking, calls: BookCalls) -> None:
        self._asking, self._calls, self._book = asking, calls, calls.book
        self.moved = 0

    async def sweep(self) -> None:
        """Once through all jobs. An error with one row does not hold up the others."""
        await self._asking.answers()
        for job in JOBS:
            rows = await self._calls(lambda job=job: list(self._book.leases.unpaid(job)))
            for start in range(0, len(rows), STEP):
                await self._look(rows[start : start + STEP])

    async def _look(self, candidates: Sequence[Row]) -> None:
        rows = [row for row in candidates if self._rested(row)]
        runs = await self._asking.runs([row.run_id for row in rows if row.run_id])
        for row in rows:
            run = runs.get(row.run_id or "")
            todo = judge(row, run, self._book.settings, datetime.now(UTC))
            if todo is Do.NOTHING:
                continue
            try:
                await self._settle(row, run, todo)
            except Missing as error:
                log.warning("%s waits: %s", row.key, error)
            except PostroomError as error:
                if error.retryable and not await self._asking.answers():
                    raise  # nobody is there: the others would fare no better
                log.error("%s could not be moved: %s", row.key, error)
                if todo is Do.ASK:
                    await self._calls(self._book.leases.note_run, row.key, None)  # in vain, but not for ever

    def _rested(self, row: Row) -> bool:
        """Whether nobody moved it a moment ago (another sensor, or the intake that is about to ask)."""
        rest = max(1.0, min(self._book.settings.sweep_seconds, 10.0)) * patience(row)
        return row.touched_at + int(rest * 1000) <= self._book.clock.now_ms()

    def _open(self, row: Row) -> bool:
        return not row.terminal and row.effective_until <= self._book.clock.now_ms() and self._rested(row)

    async def _settle(self, seen: Row, run: FlowRun | None, todo: Do) -> None:
        row = await self._calls(self._book.leases.find, seen.key)  # the index may lag; the row decides
        if row is None or not self._open(row) or (row.run_id, row.fence) != (seen.run_id, seen.fence):
            return
        was = run.state.name if run is not None and run.state is not None else "none"
        if todo is Do.FAIL:
            await self._close(row, State.FAILED, "Failed", why_given_up(row), row.category)
        elif run is None or todo is Do.ASK:
            await self._ask(row)
        elif todo is Do.CANCEL:
            overtaken = was == "Preempted" or await self._calls(self._overtaken, row)
            by = "preempted" if overtaken else "cancelled by a person"
            await self._close(row, State.CANCELLED, "Cancelled", by)
            if run.state is not None and run.state.type is StateType.CANCELLING:
                await self._asking.cancel(str(run.id), "nobody was there to let go")
        else:
            claim = self._book.leases.note_run
            if not await self._calls(claim, row.key, str(run.id), untouched_since=row.touched_at, anew=True):
                return  # another sensor sees to it
            await self._asking.reschedule(str(run.id), f"attempt {row.attempts + 1}; it was {was}")
        self.moved += 1
        log.info("%s (%s, run %s): %s", row.key, row.state, was, todo.value)

    def _overtaken(self, row: Row) -> bool:
        """Whether a newer edit of the same site was asked for: then that is why its run was cancelled."""
        project, generation = row.key.removeprefix("edit:").rpartition(":")[0], generation_of(row.key)
        return row.job == "edit" and self._book.desk.read(project).generation > generation

    async def _close(self, row: Row, state: State, what: str, reason: str, category: str | None = None) -> None:
        kind = {"category": category} if category else {}
        event = event_about(row.job, row.key, what, reason=reason, attempts=row.attempts, **kind)
        await self._calls(self._book.leases.close, row.key, state, reason, event=event, category=category)

    async def _ask(self, row: Row) -> None:
        if row.work is None:
            raise Missing("the book does not say what has to be run for it")
        try:
            run = await self._asking.ask(row.key, row.work)
        except BadInput as error:
            await self._close(row, State.FAILED, "Failed", f"Prefect does not accept the run: {error}", error.category)
            return
        anew = run.state is not None and run.state.is_final() and not run.state.is_cancelled()
        await self._calls(self._book.leases.note_run, row.key, str(run.id), anew=anew)
        if anew:
            await self._asking.reschedule(str(run.id), "it had ended, but its work has not")
