"""How a flow's body meets the book: it starts once, beats while it works, and its end is written down.

    run starts ─▶ start ─┬─ granted ─▶ body, with heartbeats ─┬─▶ done
                         ├─ busy: another works on it; wait    ├─▶ refused / failed
                         ├─ ended: report its outcome          ├─▶ waiting for the next attempt
                         └─ exhausted: failed                  ├─▶ put off: a rate limit said until when
                                                               └─▶ handed back (this process is stopping)

Flows have `retries=0`: the sensor's sweeper is the one owner of retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import prefect.runtime.flow_run
from prefect import get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType
from prefect.exceptions import TerminationSignal

from flows.told_to_stop import listening, undisturbed
from postroom.errors import LeaseLost, OutOfTime, PostroomError, QuotaReached, RateLimited, Refused, classify
from postroom.ledger import Ended, Event, Exhausted, Granted, Holding, State, Work, hold
from postroom.ledger.book import Book, new_holder, open_book
from postroom.ledger.clock import iso
from postroom.ledger.leases import Start
from postroom.logs import correlate, correlation_for_key

log = logging.getLogger("postroom.flows")
ASK_AGAIN_SECONDS = 0.5
QUOTA_HOURS = 14 * 24
HANDED_BACK = "Handed back by worker"
RESCHEDULED = "Rescheduled"  # what the sweeper calls the state it schedules with
PASSING = ("Late", "AwaitingConcurrencySlot")  # what Prefect makes of a scheduled run that has to wait
BEGUN_ANEW = (State.WAITING, State.FAILED, State.CANCELLED)  # at a person's word
Body = Callable[[Holding], Awaitable[Mapping[str, Any]]]
OnCancel = Callable[[Holding, bool], Awaitable[str | None]]
OnFailure = Callable[[Holding, PostroomError], Awaitable[None]]


class PutOff(Exception):
    """The work waits for a rate limit to reset; its row says until when, and the sweeper asks for it again."""


@dataclass(frozen=True)
class Subject:
    """What a run works on: its key in the book and how events speak of it."""

    key: str
    job: str  # mail, edit, task, change
    noun: str  # Mail, Task, Change: the first word of its events
    entity: str  # MAIL#id
    work: Work | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    def event(self, what: str, **properties: Any) -> Event:
        return Event(f"{self.noun} {what}", self.entity, self.job, {**self.properties, **properties})


async def once(
    subject: Subject,
    body: Body,
    *,
    beats_are_events: bool = False,
    on_cancel: OnCancel | None = None,
    on_failure: OnFailure | None = None,
) -> dict[str, Any]:
    """The body's outcome, carried out by exactly one holder; the recorded outcome when it was done before.

    `on_cancel(holding, by_a_person)` lets a body save what it has when it is told to stop; what it
    gives is the reason that is written down. `on_failure(holding, error)` is called before the last
    attempt is written down as failed, while the lease is still held.
    """
    with correlate(correlation_for_key(subject.key)):
        return await _once(subject, body, beats_are_events, on_cancel, on_failure)


async def _once(
    subject: Subject, body: Body, beats_are_events: bool, on_cancel: OnCancel | None, on_failure: OnFailure | None
) -> dict[str, Any]:
    book = open_book()
    started = await _start(book, subject)
    if isinstance(started, Ended):
        log.info("%s is %s already; reporting that", subject.key, started.row.state)
        if started.row.state is State.FAILED:
            raise PostroomError(f"{subject.key} has failed before: {started.row.reason}")
        return dict(started.row.outcome)
    if isinstance(started, Exhausted):
        row = started.row
        said = row.reason or "each ended without a word"
        await asyncio.to_thread(
            book.leases.close,
            subject.key,
            State.FAILED,
            f"given up after {row.attempts} attempts: {said}",
            category=row.category,
            event=subject.event(
                "Failed", reason=f"attempts used up: {said}", category=row.category, attempts=row.attempts
            ),
        )
        raise PostroomError(f"{subject.key}: all {row.attempts} attempts are used up: {said}")
    assert isinstance(started, Granted)
    return await _carry_out(book, subject, started, body, beats_are_events, on_cancel, on_failure)


async def _start(book: Book, subject: Subject) -> Start:
    """Wait out a holder that is alive; it may be this very run, started twice."""
    holder = new_holder()
    again: bool | None = None  # a person's word; asked for only when without it there is no starting
    while True:
        started = await asyncio.to_thread(
            book.leases.start,
            subject.key,
            subject.job,
            holder,
            event=subject.event("Processing Started", run=str(prefect.runtime.flow_run.id or "")),
            again=bool(again),
            work=subject.work,
        )
        if isinstance(started, Granted):
            return started
        if again is None and (isinstance(started, Exhausted) or started.row.state in BEGUN_ANEW):
            again = await asked_by_a_person()
            if again:
                continue
        if isinstance(started, (Ended, Exhausted)):
            return started
        log.info("%s is held by %s; waiting", subject.key, started.row.holder)
        await asyncio.sleep(ASK_AGAIN_SECONDS)


async def _carry_out(
    book: Book,
    subject: Subject,
    granted: Granted,
    body: Body,
    beats_are_events: bool,
    on_cancel: OnCancel | None,
    on_failure: OnFailure | None,
) -> dict[str, Any]:
    beat = (lambda: subject.event("Heartbeat")) if beats_are_events else None
    try:
        with listening():
            return await _body(book, subject, granted, body, beat, on_cancel, on_failure)
    except LeaseLost as lost:
        log.warning("%s", lost)
        raise


async def _body(
    book: Book,
    subject: Subject,
    granted: Granted,
    body: Body,
    beat: Callable[[], Event] | None,
    on_cancel: OnCancel | None,
    on_failure: OnFailure | None,
) -> dict[str, Any]:
    """The body's outcome, written down. How it ended is written to its end, whoever cancels meanwhile."""
    async with hold(book, granted.lease, beat_event=beat) as holding:
        try:
            outcome = dict(await body(holding))
        except (asyncio.CancelledError, TerminationSignal):
            if holding.lost:
                raise
            await undisturbed(_let_go(book, subject, holding, on_cancel))
            raise
        except LeaseLost as overtaken:
            if not holding.lost:  # the lease is ours, but something newer has taken the work over
                await undisturbed(_make_way(book, subject, holding, on_cancel, str(overtaken)))
            raise
        except PostroomError as error:
            await undisturbed(_ended_badly(book, subject, holding, error, on_failure))
            raise
        except Exception as error:
            ours = classify(error)  # Prefect shows the words of what is raised: ours are free of secrets
            await undisturbed(_ended_badly(book, subject, holding, ours, on_failure))
            raise ours from error
        holding.check()
        completed = subject.event("Completed", **_short(outcome))
        row = await undisturbed(holding.end(book.leases.finish, State.DONE, outcome=outcome, event=completed))
        return dict(row.outcome)


async def _let_go(
    book: Book,
    subject: Subject,
    holding: Holding,
    on_cancel: OnCancel | None,
) -> None:
    """The run was told to stop: by a person (or a preemptor), or because this worker is going away."""
    if await _is_cancelling():  # by a person, or a preemptor
        await _make_way(book, subject, holding, on_cancel, "cancelled")
        return
    if on_cancel is not None:
        await on_cancel(holding, False)
    await holding.end(book.leases.hand_back, event=subject.event("Handed Back"))


async def _make_way(book: Book, subject: Subject, holding: Holding, on_cancel: OnCancel | None, why: str) -> None:
    """End the work as cancelled, with the reason that the body gives."""
    reason = (await on_cancel(holding, True) if on_cancel is not None else None) or why
    what = "Preempted" if reason.startswith("preempted") else "Cancelled"
    await holding.end(
        book.leases.finish,
        State.CANCELLED,
        reason=reason,
        event=subject.event(what, reason=reason),
    )


async def _ended_badly(
    book: Book, subject: Subject, holding: Holding, error: PostroomError, on_failure: OnFailure | None
) -> None:
    said = {
        **_short(error.details),
        "reason": str(error),
        "category": error.category,
        "attempt": holding.lease.attempt,
    }
    if isinstance(error, Refused):
        await holding.end(
            book.leases.finish,
            State.REFUSED,
            reason=str(error),
            outcome={"reason": str(error), **error.details},
            event=subject.event("Refused", **said),
        )
        return
    if isinstance(error, RateLimited) and (until := _reset(book, holding, error)):
        event = subject.event("Put Off", **said, until=iso(until))
        await holding.end(book.leases.put_off, until, str(error), category=error.category, event=event)
        raise PutOff(f"{error}; it waits until {iso(until)}") from error
    again = error.retryable and not holding.lease.row.exhausted
    if not again and on_failure is not None:
        await on_failure(holding, error)
    final = "Timeout" if isinstance(error, OutOfTime) else "Failed"
    event = subject.event("Processing Failed" if again else final, **said)
    await holding.end(book.leases.fail, error, event=event)


def _reset(book: Book, holding: Holding, error: RateLimited) -> int | None:
    """When to come back, if the limit says so and the work has not waited too long already."""
    if not error.retry_after:
        return None
    until = book.clock.now_ms() + int(error.retry_after * 1000)
    # A day's quota lets some of the work through every day: such work may take as many days as it needs.
    hours = QUOTA_HOURS if isinstance(error, QuotaReached) else book.settings.longest_wait_hours
    longest = int(hours * 3_600_000)
    return until if until <= holding.lease.row.entered_at + longest else None


def own_key(key: str) -> str:
    """The key this run was asked for by: the given one, or `key:r{n}` when it is done once more."""
    for tag in prefect.runtime.flow_run.tags or ():
        if tag.startswith(f"key:{key}:r") and tag.removeprefix(f"key:{key}:r").isdigit():
            return str(tag).removeprefix("key:")
    return key


async def asked_by_a_person() -> bool:
    """Whether this run was last scheduled by a person's "Retry"."""
    run_id = prefect.runtime.flow_run.id
    if not run_id:
        return False
    async with get_client() as client:
        return retried_by_a_person(await client.read_flow_run_states(run_id))


def retried_by_a_person(states: Sequence[PrefectState]) -> bool:
    """Whether a run with these states, oldest first, was last scheduled by a person: after an end, not by the sweeper.

    Failed ─▶ AwaitingRetry "Retry from the UI"     a person (the CLI: Scheduled "Retried via CLI")
    Failed ─▶ Rescheduled                           the sweeper
    Running ─▶ AwaitingRetry                        a process that was told to stop: what it was asked for still holds
    """
    moves = [
        (before, state)
        for before, state in pairwise(states)
        if state.type == StateType.SCHEDULED and state.name not in PASSING and not _handed_back(state)
    ]
    if not moves:
        return False
    before, state = moves[-1]
    return before.is_final() and state.name != RESCHEDULED


def _handed_back(state: PrefectState) -> bool:
    """By our light worker, or by Prefect itself where a container is stopped; that one says nothing."""
    return state.name == "AwaitingRetry" and (not state.message or state.message.startswith(HANDED_BACK))


async def _is_cancelling() -> bool:
    run_id = prefect.runtime.flow_run.id
    if not run_id:
        return False
    try:
        async with get_client() as client:
            state = (await client.read_flow_run(run_id)).state
    except Exception as error:
        log.warning("can't ask Prefect why this run was stopped (%s); handing the work back", error)
        return False
    return state is not None and state.type in (StateType.CANCELLING, StateType.CANCELLED)


def _short(outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in outcome.items() if isinstance(v, (str, int, float, bool)) and len(str(v)) < 500}
