"""Messages on the shelf: received, kept invisible to others, and given up only when their work has ended."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from postroom.ledger import Row, State
from workers.orders import Message, Parcel
from workers.routes import Route

MOST_ENTERING = 100  # of one queue: received but not yet asked for; more would only wait for Prefect
MOST_HELD = 20_000  # of one queue; SQS itself stops at 120,000
MOST_RESTING = 100  # of one queue that take no place; when the model is closed to all, the rest waits in the queue
REST_MS = 120_000  # work that was put off for longer takes no place
LOOK_SOONEST, LOOK_LATEST = 0.25, 1.0


@dataclass(eq=False)
class Held:
    """One message and how far it is."""

    message: Message
    route: Route
    parcel: Parcel = field(default_factory=Parcel)
    since: float = field(default_factory=time.monotonic)
    extended: float = field(default_factory=time.monotonic)
    look_at: float = 0.0
    failures: int = 0  # to extend, in a row
    entered: bool = False
    ending: bool = False
    resting: bool = False  # all its work was put off for a good while
    copied: int = 0  # fresh copies that were sent; with the last of them this one is only to be deleted

    @property
    def age(self) -> float:
        return time.monotonic() - self.since


class Shelf:
    """All held messages, by their SQS id."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._count: Counter[str] = Counter()
        self._entering: Counter[str] = Counter()
        self._resting: Counter[str] = Counter()
        self._moved = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def __contains__(self, held: Held) -> bool:
        return self._held.get(held.message.id) is held

    def find(self, message_id: str) -> Held | None:
        return self._held.get(message_id)

    def put(self, held: Held) -> None:
        self._held[held.message.id] = held
        self._count[held.message.queue] += 1
        self._entering[held.message.queue] += 1
        self._moved.set()

    def asked(self, held: Held) -> None:
        """Its runs are asked for: from now on it is looked after, not worked on."""
        if held in self and not held.entered:
            held.entered, held.look_at = True, time.monotonic() + LOOK_SOONEST
            self._entering[held.message.queue] -= 1
            self._moved.set()

    def saw(self, held: Held, rows: Iterable[Row], now_ms: int) -> None:
        """Its rows as they are now: what was put off for long leaves its place to others until its time comes."""
        resting = all(row.state is State.WAITING and row.effective_until > now_ms + REST_MS for row in rows)
        if held in self and resting is not held.resting:
            held.resting = resting
            self._resting[held.message.queue] += 1 if resting else -1
            self._moved.set()

    def take(self, held: Held) -> None:
        if held in self:
            self._resting[held.message.queue] -= held.resting
            del self._held[held.message.id]
            self._count[held.message.queue] -= 1
            self._entering[held.message.queue] -= not held.entered
            self._moved.set()

    def count(self, queue: str) -> int:
        return self._count[queue]

    def room(self, queue: str, limit: int | None) -> int:
        """How many more messages of a queue may come."""
        at_work = self._count[queue] - min(self._resting[queue], MOST_RESTING)
        free = min((limit or MOST_HELD) - at_work, MOST_ENTERING - self._entering[queue])
        return max(0, free)

    async def moved(self, seconds: float) -> None:
        """Returns when something was put on or taken off, or after that time."""
        self._moved.clear()
        try:
            await asyncio.wait_for(self._moved.wait(), seconds)
        except TimeoutError:
            pass

    def to_look_at(self) -> list[Held]:
        """Those whose rows should be read now. Young ones often, and all less often when there are many."""
        now = time.monotonic()
        due = [each for each in self._held.values() if each.entered and not each.ending and each.look_at <= now]
        for each in due:
            each.look_at = now + max(min(each.age / 20, LOOK_LATEST), LOOK_SOONEST, len(self._held) / 1000)
        return due

    def to_extend(self, every: float) -> list[Held]:
        """Those whose visibility should be extended now; sooner again after a failure."""
        now = time.monotonic()
        return [h for h in self._held.values() if now - h.extended >= (every / 2 if h.failures else every)]
