"""Holding a lease while a body works: beats in the background, stops the body when the lease is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from postroom.errors import LeaseLost
from postroom.ledger.events import Event
from postroom.ledger.leases import Lease

if TYPE_CHECKING:
    from postroom.ledger.book import Book

log = logging.getLogger("postroom.ledger")
BEATS_PER_PROMISE = 3
P = ParamSpec("P")
T = TypeVar("T")


class Holding:
    """A lease that is kept alive. `check()` before every outward effect; `end()` writes down how it ended."""

    def __init__(self, book: Book, lease: Lease) -> None:
        self._book, self.lease = book, lease
        self.lost: str | None = None
        self.ended = False
        self._one_write = asyncio.Lock()

    @property
    def fence(self) -> int:
        return self.lease.fence

    def check(self) -> None:
        """Raise LeaseLost unless this holder may still act. Cheap: looks at our own clock only."""
        if self.lost:
            raise LeaseLost(self.lost)
        if self.ended:  # a thread of ours may be at work still
            raise LeaseLost(f"{self.lease.key}: this holder has let go")
        if self._book.clock.monotonic() >= self.lease.stop_at:
            self.lost = f"{self.lease.key}: no heartbeat got through in time; this holder has stopped"
            raise LeaseLost(self.lost)

    async def beat(self, event: Event | None = None) -> None:
        async with self._one_write:
            if not self.ended:
                self.lease = await asyncio.to_thread(self._book.leases.beat, self.lease, event=event)

    async def end(self, write: Callable[Concatenate[Lease, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `leases.finish`, `fail`, `put_off` or `hand_back` answers.

        It is the last write of this holder: a beat that met the ended row would take it for another's.
        """
        async with self._one_write:
            self.ended = True
            return await asyncio.to_thread(write, self.lease, *args, **kwargs)


@asynccontextmanager
async def hold(book: Book, lease: Lease, *, beat_event: Callable[[], Event] | None = None) -> AsyncIterator[Holding]:
    """Keep the lease while the block runs. If it is lost the block is cancelled and LeaseLost raised."""
    holding = Holding(book, lease)
    body = asyncio.current_task()
    assert body is not None
    stopped_by_us = False

    async def keep() -> None:
        nonlocal stopped_by_us
        pause = book.leases.promise / BEATS_PER_PROMISE
        while True:
            await asyncio.sleep(pause)
            if holding.ended:
                return
            try:
                holding.check()
                await holding.beat(beat_event() if beat_event else None)
                pause = book.leases.promise / BEATS_PER_PROMISE
            except LeaseLost as lost:
                holding.lost = str(lost)
                stopped_by_us = True
                body.cancel()
                return
            except Exception as error:
                log.warning("%s: heartbeat did not get through: %s", lease.key, error)
                pause = min(1.0, book.leases.promise / 10)

    keeper = asyncio.create_task(keep(), name=f"beat {lease.key}")
    try:
        yield holding
    except asyncio.CancelledError:
        if stopped_by_us and body.uncancel() <= 0:
            raise LeaseLost(holding.lost or lease.key) from None
        raise
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
    if not holding.ended:
        holding.check()
