"""How many mails of this process may be claimed and not ended: what a kill can leave unknown, in all deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Afloat:
    """So many at most, whoever they belong to, in whichever thread and event loop."""

    def __init__(self, most: int) -> None:
        self._most, self._now = most, 0
        self._lock = threading.Lock()
        self._bells: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @asynccontextmanager
    async def room_for(self, mails: int) -> AsyncIterator[None]:
        """Waits until there is room; more than there can ever be wait for all of it."""
        mails = min(mails, self._most)
        while (bell := self._take(mails)) is not None:
            await bell.wait()
        try:
            yield
        finally:
            self._give_back(mails)

    def _take(self, mails: int) -> asyncio.Event | None:
        """None when there was room; else a bell that rings when there may be."""
        with self._lock:
            if self._now + mails <= self._most:
                self._now += mails
                return None
            bell = asyncio.Event()
            self._bells.append((asyncio.get_running_loop(), bell))
            return bell

    def _give_back(self, mails: int) -> None:
        with self._lock:
            self._now -= mails
            bells, self._bells = self._bells, []
        for loop, bell in bells:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(bell.set)


@functools.cache
def afloat(most: int) -> Afloat:
    """The one of this process."""
    return Afloat(most)
