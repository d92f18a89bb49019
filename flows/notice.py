"""One notice: a status of a version of a change, for one customer. Told once, whichever event asks for it.

    submitted v1 ──▶ approved v1 ──▶ submitted v2 ──▶ …   of one customer are told one after the other:
    a later one waits while an earlier one is being told, so "cancelled" knows who had been told.

Attempts are counted by the run's own row; the notice's row only says who tells it, and what came of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import prefect.runtime.flow_run

from postroom.changes.model import Change
from postroom.changes.notices import Notice, decide, earlier_keys, has_told, notice_key, was_told
from postroom.delivery.report import reports
from postroom.errors import LeaseLost, PostroomError, RateLimited, Unavailable, classify
from postroom.ledger import Book, Ended, Event, Granted, Holding, Row, State, hold
from postroom.ledger.book import new_holder
from postroom.ledger.leases import Lease

log = logging.getLogger("postroom.flows")
JOB = "notice"  # not one of the sweeper's: it looks after the run's own row
ASK_AGAIN_SECONDS = 0.3
Tell = Callable[[Holding, Notice], Awaitable[dict[str, Any]]]


async def told_once(book: Book, change: Change, code: str, run: Holding, tell: Tell) -> dict[str, Any]:
    """What came of the notice: told now by `tell`, or before by another run."""
    earlier = await _earlier(book, change, code, run)
    lease = await _start(book, notice_key(change, code), run)
    if isinstance(lease, Row):
        log.info("%s was told before", lease.key)
        return dict(lease.outcome)
    told = was_told(change, code) or await asyncio.to_thread(_has_told, book, change, code, earlier)
    what = decide(change, told=told, tell_cancelled=book.settings.tell_cancelled)
    outcome: dict[str, Any] = {"version": change.version, "status": change.status.value, "told": what is not None}
    try:
        async with hold(book, lease) as holding:
            try:
                if what is not None:
                    outcome |= {"topic": what.topic, "kind": what.kind, **await tell(holding, what)}
            except asyncio.CancelledError:
                if not holding.lost:
                    await holding.end(book.leases.hand_back)
                raise
            except Exception as error:
                await _let_go(book, run, holding, classify(error))
                raise
            said = Event(
                "Change Notified" if what else "Change Noted",
                f"CHANGE#{change.change_id}",
                "change",
                {"customer": code, **outcome},
            )
            await holding.end(book.leases.finish, State.DONE, outcome=outcome, event=said)
    except LeaseLost as lost:
        run.check()
        # The run still has its own lease: nothing has overtaken it, and the rest must be told by its next attempt.
        raise Unavailable(f"{lease.key} was broken off: {lost}") from lost
    return outcome


async def told_before(book: Book, change: Change, code: str) -> dict[str, dict[str, Any]]:
    """What came of the customer's earlier notices, by key: their runs may have died before the archive said so."""
    rows = await asyncio.to_thread(book.leases.find_many, list(earlier_keys(change, code)))
    return {key: dict(row.outcome) for key, row in rows.items() if row.state is State.DONE}


async def _earlier(book: Book, change: Change, code: str, run: Holding) -> list[Row]:
    """The notices before this one, when none of them is being told any more."""
    keys = list(earlier_keys(change, code))
    while True:
        rows = list((await asyncio.to_thread(book.leases.find_many, keys)).values())
        now = book.clock.now_ms()
        if not any(row.state is State.WORKING and row.effective_until > now for row in rows):
            return rows
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        run.check()


async def _start(book: Book, key: str, run: Holding) -> Lease | Row:
    """The lease of the notice, or its row when it is done. One that failed is begun again: this run may."""
    holder = new_holder()
    while True:
        started = await asyncio.to_thread(book.leases.start, key, JOB, holder, again=True)
        if isinstance(started, Granted):
            if run_id := prefect.runtime.flow_run.id:
                await asyncio.to_thread(book.leases.note_run, key, str(run_id))
            return started.lease
        if isinstance(started, Ended):
            return started.row
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        run.check()


async def _let_go(book: Book, run: Holding, holding: Holding, error: PostroomError) -> None:
    """Back to waiting when the run will be tried again, else failed with the reason."""
    if isinstance(error, LeaseLost):
        return
    put_off = isinstance(error, RateLimited) and bool(error.retry_after)
    if put_off or (error.retryable and not run.lease.row.exhausted):
        await holding.end(book.leases.hand_back)
        return
    outcome = {"error": str(error), "category": error.category}
    await holding.end(book.leases.finish, State.FAILED, reason=str(error), outcome=outcome)


def _has_told(book: Book, change: Change, code: str, earlier: list[Row]) -> bool:
    """Whether people know of the change by an earlier notice. One that was broken off may have told some."""
    if any(has_told(row.outcome) for row in earlier if row.state is State.DONE):
        return True
    if all(row.state is State.DONE for row in earlier):
        return False
    return any(report.sent or report.unknown or report.shared for report in reports(book, change.change_id, code))
