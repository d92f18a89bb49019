"""The pace of an account: how many mails a second all workers together may hand to its SES.

    row of the account   next ──▶ the first moment nobody has reserved
    a worker reserves    [next, next + n/rate)  by compare-and-swap, and sends one mail per slot
    SES says: too fast   next is moved on, so that all workers pause

Idle time is not saved up. Slots lie 3 % further apart than allowed, for not every mail is equally long on
its way; no two mails of one worker start closer than 1 % more than allowed, so a late one is never made
good by a burst.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from postroom.delivery import aws
from postroom.delivery.asking import asked
from postroom.delivery.customer import Customer
from postroom.errors import QuotaReached, classify
from postroom.ledger import Book
from postroom.ledger.clock import iso
from postroom.ledger.dynamo import ConditionFailed, update, wire

MARGIN = 1.03  # between slots
CLOSEST = 1.01  # between two mails of this worker
CHUNK_SECONDS = 0.5
MOST_SLOTS = 500
STALE_SECONDS = 0.25
ASK_SECONDS = 60.0  # how old the account's answer may be
PAUSE_SECONDS = 0.25  # doubled from throttle to throttle
LONGEST_PAUSE = 30.0
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ROW = "pace"


@dataclass(frozen=True)
class Allowance:
    """What an account may send."""

    rate: float  # mails a second
    left_today: float  # infinite when the account has no daily quota

    @classmethod
    def of(cls, customer: Customer) -> Allowance:
        """By the account's own word, and the customer's limit."""
        quota = aws.reading(customer).get_account().get("SendQuota", {})
        rate, most = float(quota.get("MaxSendRate", 1.0)), float(quota.get("Max24HourSend", -1))
        left = most - float(quota.get("SentLast24Hours", 0)) if most >= 0 else float("inf")
        return cls(max(0.01, min(rate, customer.max_send_rate or rate)), left)


class Pace:
    """One delivery's share of its account's pace: `slots()` says when its next mails may go, `turn()` waits for one."""

    def __init__(self, book: Book, customer: Customer, ask: Callable[[Customer], Allowance] = Allowance.of) -> None:
        self._book, self._customer, self._ask = book, customer, ask
        self.key = f"pace:{customer.account}:{customer.region}"
        self._allowance: Allowance | None = None
        self._asked = 0.0
        self._slots: deque[float] = deque()  # by our own monotonic clock
        self._last = 0.0
        self._next_us: int | None = None  # what the row said when we last saw it
        self._pauses = 0
        self._paused_at = 0.0
        self._rest_until = 0.0
        self._counter = asyncio.Lock()  # where slots are handed out
        self._turnstile = asyncio.Lock()  # through which mails leave, one after the other
        self._reserving: asyncio.Task[list[float]] | None = None
        self._one_at_a_time = threading.Lock()

    async def allowance(self, *, fresh: bool = False) -> Allowance:
        if self._allowance is None or fresh or time.monotonic() - self._asked > ASK_SECONDS:
            try:
                self._allowance = await asked(self._ask, self._customer)
            except Exception as error:
                if self._allowance is None or not classify(error).retryable:
                    raise  # else: the old answer holds until there is a new one
            self._asked = time.monotonic()
        return self._allowance

    async def slots(self, most: int) -> list[float]:
        """The next moments at which a mail of ours may go, by the monotonic clock: one at least, close to each other.

        The first may be far: many deliveries share an account. Nothing is claimed before it is near.
        """
        async with self._counter:
            allowance = await self.allowance()
            while not (self._slots and self.holds(self._slots[0])):
                if self._slots:
                    self._slots.popleft()  # its time is over; used now it would be a burst
                    continue
                reserving, self._reserving = self._reserving, None
                self._slots.extend(await (reserving or self._reserve(allowance.rate)))
            taken = [self._slots.popleft()]
            while self._slots and len(taken) < most and self._slots[0] < taken[0] + CHUNK_SECONDS:
                taken.append(self._slots.popleft())
            chunk = _chunk(allowance.rate)
            if chunk > 1 and len(self._slots) <= chunk // 2 and self._reserving is None:
                self._reserving = asyncio.ensure_future(self._reserve(allowance.rate))
            return taken

    def holds(self, slot: float) -> bool:
        """Whether a slot can still be used: it is not over, and does not lie in a pause."""
        return slot >= max(time.monotonic() - STALE_SECONDS, self._rest_until)

    def give_back(self, slots: Iterable[float]) -> None:
        """Slots for which there was no mail after all."""
        self._slots = deque(sorted([*self._slots, *slots]))

    async def turn(self, slot: float) -> None:
        """Waits for that slot, and for the mail before it."""
        if (wait := slot - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        async with self._turnstile:
            wait = self._last + CLOSEST / (await self.allowance()).rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self._last = time.monotonic()

    def went(self) -> None:
        """A mail was taken: the pace is right."""
        self._pauses = 0

    @property
    def resting(self) -> float:
        """How many seconds of the last pause are left: it is waited for before anything is claimed."""
        return self._rest_until - time.monotonic()

    async def slow_down(self, began: float) -> bool:
        """SES said that it was too fast. Everybody pauses; raises QuotaReached when it is the day's quota.

        `began` is when those mails began: what was on its way before the last pause asks for no second one,
        and gets False.
        """
        if began < self._paused_at:
            return False
        self._paused_at = time.monotonic()
        allowance = await self.allowance(fresh=True)
        if allowance.left_today < 1:
            raise await self.quota_reached()
        pause = self._pause()
        self._slots.clear()
        if self._reserving is not None:
            self._reserving.cancel()
            self._reserving = None
        await asyncio.to_thread(self._take, int(pause * 1e6), 0)
        return True

    def lie_low(self, began: float) -> bool:
        """The same when SES was not reached: only we pause, others may have a better way there."""
        if began < self._paused_at:
            return False
        self._paused_at = time.monotonic()
        self._pause()
        return True

    def _pause(self) -> float:
        """The length of the next pause, which begins now."""
        self._pauses += 1
        pause = min(LONGEST_PAUSE, PAUSE_SECONDS * 2.0 ** (self._pauses - 1))
        self._rest_until = time.monotonic() + pause
        return pause

    async def quota_reached(self) -> QuotaReached:
        """The error that says when there will be room again."""
        now = self._book.clock.now_ms()
        opens = await asyncio.to_thread(self._opens_at, now)
        account = self._customer.account
        return QuotaReached(
            f"customer {self._customer.code}: account {account} has used its daily quota; the next window opens "
            f"at {iso(opens)}",
            opens_at=iso(opens),
            retry_after=(opens - now) / 1000,
        )

    async def close(self) -> None:
        if self._reserving is not None:
            self._reserving.cancel()
            await asyncio.gather(self._reserving, return_exceptions=True)
            self._reserving = None

    async def _reserve(self, rate: float) -> list[float]:
        count = _chunk(rate)
        step = MARGIN / rate
        begin_us = await asyncio.to_thread(self._take, int(count * step * 1e6), count)
        begin = time.monotonic() + (begin_us - time.time_ns() // 1000) / 1e6
        return [begin + n * step for n in range(count)]

    def _take(self, length_us: int, count: int) -> int:
        """The beginning of a stretch of time that is now ours alone, in microseconds since the epoch."""
        with self._one_at_a_time:
            while True:
                now_us = time.time_ns() // 1000
                begin = max(now_us, self._next_us or 0)
                try:
                    row = update(self._book.dynamodb, **self._request(begin + length_us, count, now_us // 1000))
                except ConditionFailed as failed:
                    self._next_us = failed.item["next_us"] if failed.item else None
                    continue
                self._next_us = row["next_us"]
                self._forget_old_hours(row, now_us // 1000)
                return begin

    def _request(self, then: int, count: int, now_ms: int) -> dict[str, Any]:
        values: dict[str, Any] = {":then": then, ":count": count}
        condition = "attribute_not_exists(next_us)"
        if self._next_us is not None:
            condition, values[":seen"] = "next_us = :seen", self._next_us
        return {
            **self._row(),
            "UpdateExpression": "SET next_us = :then ADD #hour :count",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#hour": f"hour_{now_ms // HOUR_MS}"},
            "ExpressionAttributeValues": {name: wire(value) for name, value in values.items()},
        }

    def _row(self) -> dict[str, Any]:
        return {
            "TableName": self._book.deliveries.table,
            "Key": {"batch": wire(self.key), "recipient": wire(ROW)},
        }

    def _forget_old_hours(self, row: dict[str, Any], now_ms: int) -> None:
        old = [name for name in row if name.startswith("hour_") and int(name[5:]) < (now_ms - DAY_MS) // HOUR_MS - 1]
        if old:
            names = {f"#h{n}": name for n, name in enumerate(old)}
            self._book.dynamodb.update_item(
                **self._row(), UpdateExpression=f"REMOVE {', '.join(names)}", ExpressionAttributeNames=names
            )

    def _opens_at(self, now_ms: int) -> int:
        """When the mails of our oldest hour are a day old; in an hour when others have used the quota."""
        found = self._book.dynamodb.get_item(**self._row(), ConsistentRead=True).get("Item", {})
        hours = [int(name[5:]) for name, value in found.items() if name.startswith("hour_") and int(value["N"]) > 0]
        recent = [hour for hour in hours if (hour + 1) * HOUR_MS + DAY_MS > now_ms]
        return (min(recent) + 1) * HOUR_MS + DAY_MS if recent else now_ms + HOUR_MS


def _chunk(rate: float) -> int:
    """Slots reserved at once: half a second's worth, unless that is more than anybody can send."""
    return min(MOST_SLOTS, max(1, int(rate * CHUNK_SECONDS)))
