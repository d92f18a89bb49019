"""Recipients between the list and the senders: a short queue, so that a slow pace stops the reading."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from postroom.delivery.recipients import Recipient


class Waiting:
    """Takes in at the reader's end, gives out in small rounds; over when all is read and nothing is in hand."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._there: deque[Recipient] = deque()
        self._in_hand = 0
        self._read = False
        self._stopped = False
        self._changed = asyncio.Condition()

    @property
    def stopped(self) -> bool:
        return self._stopped

    async def put(self, recipient: Recipient) -> None:
        """Waits for room."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._there) < self._most or self._stopped)
            self._there.append(recipient)
            self._changed.notify_all()

    async def take(self, most: int) -> list[Recipient]:
        """At least one and at most so many; none when there will be no more."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._there or self._stopped or (self._read and not self._in_hand),
            )
            if self._stopped:
                return []
            taken = [self._there.popleft() for _ in range(min(most, len(self._there)))]
            self._in_hand += len(taken)
            self._changed.notify_all()
            return taken

    async def done(self, taken: int, again: list[Recipient]) -> None:
        """The round is over; `again` are to be tried once more."""
        async with self._changed:
            self._in_hand -= taken
            self._there.extendleft(reversed(again))
            self._changed.notify_all()

    async def rest(self, seconds: float) -> None:
        """Waits so long, or until all is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self._stopped)

    async def all_read(self) -> None:
        async with self._changed:
            self._read = True
            self._changed.notify_all()

    async def stop(self) -> None:
        """Nobody takes any more."""
        async with self._changed:
            self._stopped = True
            self._changed.notify_all()
