"""Telling every recipient of a notice once.

    contacts ─ pages ─▶ look, plan ─▶ waiting ─▶ lanes: slots for a few ─▶ claim ─▶ a turn each ─▶ SES ─▶ written down
                                         ▲                                                 │
                                         └─────────────────── throttled ───────────────────┘

Only the claim in the book lets a mail go, and none is claimed long before its slot. A run that is stopped, or
killed, leaves at most the few mails of its open rounds as unknown; the next run sends what is pending and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, ParamSpec, TypeVar

from postroom.delivery import aws
from postroom.delivery.afloat import afloat
from postroom.delivery.asking import asked
from postroom.delivery.customer import Customer
from postroom.delivery.notice import Notice
from postroom.delivery.outgoing import Outgoing, Try
from postroom.delivery.pace import Pace
from postroom.delivery.recipients import Known, Page, Recipient, only, recipients
from postroom.delivery.report import Report, enter, note_unanswered, report_of, unanswered
from postroom.delivery.waiting import Waiting
from postroom.delivery.writing import render
from postroom.errors import Misconfigured, NetworkDown, PostroomError, RateLimited, classify
from postroom.ledger import Book
from postroom.ledger.deliveries import Delivery
from postroom.ledger.rounds import MOST, Ending

log = logging.getLogger("postroom.delivery")
LANES = 4
MOST_OF_A_ROUND = 8
ROUND_SECONDS = 0.25  # a round is what the pace allows in this time
LEAD_SECONDS = 0.25  # so long before its slot a mail is claimed; longer when the ledger is slow
PATIENCE = 8  # pauses in a row, a good minute in all, before the rest is put off
PUT_OFF_SECONDS = 60.0
DOUBT = 10  # mails in a row without a clear answer: SES is unwell, and each more would be one more nobody knows of
SAME_REFUSALS = 5  # in a row, with nothing sent: it is not the addresses
LOOK_AGAIN_SECONDS = 0.5
P = ParamSpec("P")
T = TypeVar("T")


async def deliver(
    book: Book,
    *,
    change: Mapping[str, Any],
    customer: Customer,
    topic: str,
    kind: str,
    check: Callable[[], None] = lambda: None,
) -> Report:
    """Tells the customer's subscribers of the topic, each once, whatever was sent before; counts from the book.

    `change` is the archive's JSON. `check` raises when this holder may not act any more. Raises QuotaReached
    (with the time of the next window) or RateLimited (both know when to come back) when the rest must wait: it
    stays pending.
    """
    notice = Notice.of(change, customer, topic, kind)
    delivering = await _begin(book, notice, change, check)
    ses = await asked(aws.reading, customer)
    return await delivering.tell(recipients(ses, customer, topic))


async def resend_failed(
    book: Book,
    *,
    change: Mapping[str, Any],
    customer: Customer,
    topic: str,
    kind: str,
    check: Callable[[], None] = lambda: None,
) -> Report:
    """Tries once more those, and only those, whose delivery has failed and who may be told: still subscribed,
    allowed and not suppressed."""
    notice = Notice.of(change, customer, topic, kind)
    delivering = await _begin(book, notice, change, check)
    return await delivering.tell_failed()


async def _begin(book: Book, notice: Notice, change: Mapping[str, Any], check: Callable[[], None]) -> Delivering:
    subject, text, html = render(notice.kind, change, notice.customer)
    await asyncio.to_thread(enter, book, notice)  # before the role is assumed: one that can't be is in the report
    outgoing = await asked(Outgoing, notice, subject, text, html)
    return Delivering(book, notice, outgoing, check)


def failures(book: Book, notice: Notice) -> list[Delivery]:
    """The failed deliveries of this customer's notice, and those that an earlier try of them has left over."""
    code = notice.customer.code
    rows = book.deliveries.of_batch(notice.batch)
    open_ones = (row for row in rows if row.state == "failed" or (row.state == "pending" and row.reason))
    return [row for row in open_ones if row.detail.get("customer", code) == code]


class Delivering:
    """One run of one notice."""

    def __init__(self, book: Book, notice: Notice, outgoing: Outgoing, check: Callable[[], None]) -> None:
        s = book.settings
        self._book, self._notice, self._outgoing, self._check = book, notice, outgoing, check
        self._pace = Pace(book, notice.customer)
        self._waiting = Waiting(2 * MOST)
        self._pool = ThreadPoolExecutor(LANES * MOST_OF_A_ROUND + LANES, thread_name_prefix="delivery")
        self._afloat = afloat(s.delivery_at_once)
        self._late = s.delivery_call_seconds  # a claimed mail that has not begun by then is given back
        self._seconds = self._late + s.delivery_call_seconds + aws.CONNECT_SECONDS + 2  # then we must have ended
        self._lead = LEAD_SECONDS
        self._ahead = asyncio.Semaphore(2)  # rounds that are claimed and not all on their way
        self._elsewhere: set[str] = set()  # in the hands of another sender, alive or dead
        self._seen = Known()
        self._outside = 0
        self._in_a_row = 0
        self._unanswered = 0  # mails that became unknown since SES last took one
        self._answers = asyncio.Event()  # while not set, SES is tried with one mail
        self._refused: list[tuple[str, str]] = []  # recipients since SES last took a mail, and what it said of them
        self._trouble: PostroomError | None = None

    async def tell(self, pages: AsyncIterator[Page], *, everybody: bool = True) -> Report:
        """Sends what is pending; raises what must be waited for or mended."""
        began = self._book.clock.now_ms()
        try:
            self._unanswered = await self._in_thread(unanswered, self._book, self._notice)
            if self._unanswered < DOUBT:
                self._answers.set()
            await self._all_lanes(self._read(pages))
            while self._trouble is None and self._elsewhere:
                await self._all_lanes(self._look_elsewhere())
            if self._trouble is not None:
                raise self._trouble
            return await self._in_thread(self._conclude, began if everybody else None)
        finally:
            await self._pace.close()
            self._pool.shutdown(wait=False)

    async def tell_failed(self) -> Report:
        """Sends once more what has failed, by the same rules as the first time."""
        notice, book = self._notice, self._book
        failed = {row.recipient for row in await self._in_thread(failures, book, notice)}
        ses = await self._in_thread(aws.reading, notice.customer)

        async def pages() -> AsyncIterator[Page]:
            async for page in only(recipients(ses, notice.customer, notice.topic), failed):
                for each in page.recipients:
                    if not each.suppressed:
                        await self._in_thread(book.deliveries.retry_failed, notice.batch, each.key)
                yield page

        return await self.tell(pages(), everybody=False)

    async def _all_lanes(self, reading: Any) -> None:
        """Reads and sends side by side. However it ends, mails on their way are waited for and written down."""
        self._waiting = Waiting(2 * MOST)
        reader = asyncio.create_task(self._guarded(reading))
        lanes = [asyncio.create_task(self._guarded(self._lane(first=not n))) for n in range(LANES)]
        try:
            await asyncio.wait([reader, *lanes])  # unlike gather, it leaves them alone when we are cancelled
        except BaseException:
            await self._waiting.stop()
            self._answers.set()
            reader.cancel()
            await asyncio.shield(asyncio.wait(lanes, timeout=self._seconds))
            raise

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self._trouble = self._trouble or classify(error)
            await self._waiting.stop()
            self._answers.set()  # who waits for it sees that all is stopped

    async def _read(self, pages: AsyncIterator[Page]) -> None:
        async for page in pages:
            self._outside += page.outside
            for at in range(0, len(page.recipients), MOST):
                self._check()
                await self._sort(page.recipients[at : at + MOST])
                if self._waiting.stopped:
                    return
        await self._waiting.all_read()

    async def _sort(self, some: list[Recipient]) -> None:
        """Writes down who is new, and puts those that are to be told into the queue."""
        book, batch = self._book.deliveries, self._notice.batch
        people = {each.key: each for each in some}
        rows = await self._in_thread(book.look, batch, list(people))
        new = [key for key in people if key not in rows]
        if new:
            planned = await self._in_thread(book.plan_all, batch, new, detail=self._notice.detail)
            rows |= {delivery.recipient: delivery for delivery in planned}
        for key, each in people.items():
            self._seen.add(key)
            state = rows[key].state
            if each.suppressed and state == "pending":
                why = "an earlier bounce" if each.suppressed == "BOUNCE" else "a complaint"
                await self._in_thread(book.failed, batch, key, f"suppressed: {why}")
            elif state == "pending":
                await self._waiting.put(each)
            elif state == "sending":
                self._elsewhere.add(key)

    async def _look_elsewhere(self) -> None:
        """What another sender had in hand: ended by now, given back to us, or its sender is dead."""
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        self._check()
        keys, now = sorted(self._elsewhere), self._book.clock.now_ms()
        rows = await self._in_thread(self._book.deliveries.look, self._notice.batch, keys)
        for key in keys:
            row = rows.get(key)
            if row is not None and row.abandoned(now):
                row = await self._in_thread(self._book.deliveries.give_up, row)
            if row is None or row.state != "sending":
                self._elsewhere.discard(key)
            if row is not None and row.state == "pending":
                await self._waiting.put(Recipient(key))
        await self._waiting.all_read()

    async def _lane(self, *, first: bool) -> None:
        if not first:
            await self._answers.wait()
        while True:
            rate = (await self._pace.allowance()).rate
            most = min(MOST_OF_A_ROUND, max(1, int(rate * ROUND_SECONDS)))
            taken = await self._waiting.take(most if self._answers.is_set() else 1)
            if not taken:
                self._answers.set()
                return
            again: list[Recipient] = []
            try:
                again = await self._round(taken)
            finally:
                await self._waiting.done(len(taken), again)

    async def _round(self, taken: list[Recipient]) -> list[Recipient]:
        """Sends as many as there are slots for, and writes down how it ended; those to be tried again."""
        async with AsyncExitStack() as room:
            async with self._ahead:
                slots = await self._slots(len(taken))
                # Room is taken last: who waits for a slow account, or in a pause, needs none of it.
                await room.enter_async_context(self._afloat.room_for(len(slots)))
                self._check()
                began, some, others = time.monotonic(), taken[: len(slots)], taken[len(slots) :]
                calls, endings, trouble = await self._claim_and_start(some, slots)
            tries = await asyncio.gather(*calls)
            endings += [each.ending for each in tries]
            await self._in_thread(self._book.deliveries.end_all, self._notice.batch, endings)
        if trouble is not None:
            raise trouble
        await self._heed(tries, began)
        pending = {ending.recipient for ending in endings if ending.state == "pending"}
        return [each for each in some if each.key in pending] + others

    async def _slots(self, most: int) -> list[float]:
        """Slots of which the first is near; none when all is stopped."""
        while not self._waiting.stopped:
            if (seconds := self._pace.resting) > 0:
                await self._waiting.rest(seconds)
                continue
            slots = await self._pace.slots(most)
            if (seconds := slots[0] - self._lead - time.monotonic()) > 0:
                await self._waiting.rest(seconds)
            if self._pace.holds(slots[0]):
                return slots
        return []

    async def _claim_and_start(
        self, some: list[Recipient], slots: list[float]
    ) -> tuple[list[asyncio.Future[Try]], list[Ending], Exception | None]:
        """The calls that have begun, what was claimed but can't begin, and what stopped it. Uses up the slots."""
        people = {each.key: each for each in some}
        claimed = time.monotonic()
        claim = self._book.deliveries.claim_all
        mine = await self._in_thread(claim, self._notice.batch, list(people), seconds=self._seconds)
        self._lead = min(self._late / 2, max(LEAD_SECONDS, 2 * (time.monotonic() - claimed)))
        self._elsewhere |= people.keys() - {delivery.recipient for delivery in mine}
        calls: list[asyncio.Future[Try]] = []
        endings: list[Ending] = []
        trouble: Exception | None = None
        for delivery in mine:
            slot = None
            try:
                if trouble is None and not self._waiting.stopped:
                    slot = await self._next(slots, claimed + self._late)
                if slot is not None:
                    await self._pace.turn(slot)
                    self._check()
            except Exception as error:
                trouble = error
            if slot is None or trouble or self._waiting.stopped or time.monotonic() - claimed > self._late:
                endings.append(Ending(delivery.recipient, "pending", "not tried yet"))
            else:
                address = people[delivery.recipient].address
                calls.append(self._start(self._outgoing.hand_over, delivery, address))
        self._pace.give_back(slots)
        return calls, endings, trouble

    async def _next(self, slots: list[float], until: float) -> float | None:
        """The first of the slots that can still be used, or a fresh one; None when that comes too late for a claim."""
        while slots:
            if self._pace.holds(slot := slots.pop(0)):
                return slot
        if self._pace.resting > 0:
            return None
        fresh = await self._pace.slots(1)
        if fresh[0] <= until:
            return fresh[0]
        self._pace.give_back(fresh)
        return None

    async def _heed(self, tries: list[Try], began: float) -> None:
        """What SES's answers ask of all the others: go on, go slower, or stop."""
        if any(each.ending.state == "sent" for each in tries):
            self._in_a_row = 0
            self._pace.went()
            await self._trust()
        else:
            await self._doubt(tries)
        for each in tries:
            if each.trouble is not None and not isinstance(each.trouble, (RateLimited, NetworkDown)):
                raise each.trouble
        waits = [each.trouble for each in tries if each.trouble is not None]
        if not waits:
            return
        if any(isinstance(each, RateLimited) for each in waits):
            paused = await self._pace.slow_down(began)
        else:
            paused = self._pace.lie_low(began)
        self._in_a_row += paused
        if paused and self._in_a_row > PATIENCE:
            log.warning("%s waits: %s", self._notice.batch, waits[-1])
            # Not to be reached for so long is waited for like a throttle: it costs the run no attempt.
            raise RateLimited(f"customer {self._notice.customer.code}: {waits[-1]}", retry_after=PUT_OFF_SECONDS)

    async def _trust(self) -> None:
        """SES takes mail."""
        self._unanswered, self._refused = 0, []
        if not self._answers.is_set():
            self._answers.set()
            await self._in_thread(note_unanswered, self._book, self._notice, 0)

    async def _doubt(self, tries: list[Try]) -> None:
        """Raises when SES gives no clear answers any more, or says the same of everybody."""
        self._unanswered += (lost := sum(each.ending.state == "unknown" for each in tries))
        if lost and self._unanswered >= DOUBT:
            await self._in_thread(note_unanswered, self._book, self._notice, self._unanswered)
            raise RateLimited(
                f"customer {self._notice.customer.code}: SES gave no clear answer to {self._unanswered} mails in a row",
                retry_after=PUT_OFF_SECONDS,
            )
        self._refused += [(each.ending.recipient, each.refusal) for each in tries if each.refusal]
        last = [said for _, said in self._refused[-SAME_REFUSALS:]]
        if len(last) == SAME_REFUSALS and len(set(last)) == 1:
            await self._in_thread(self._not_the_addresses, last[0])

    def _not_the_addresses(self, said: str) -> None:
        """Puts back whom SES refused for what is wrong with all mails of this customer, and says so."""
        book, batch = self._book.deliveries, self._notice.batch
        if any(row.state == "sent" for row in book.of_batch(batch)):
            return
        for recipient, why in self._refused:
            if why == said:
                book.retry_failed(batch, recipient)
        raise Misconfigured(f"customer {self._notice.customer.code}: SES refuses every mail: {said}")

    def _conclude(self, began: int | None) -> Report:
        """The counts; whoever has left the list before it was their turn will not be told."""

        def settled(delivery: Delivery) -> Delivery:
            stale = delivery.state == "pending" and began is not None and delivery.at < began
            mine = delivery.detail.get("customer") == self._notice.customer.code
            if stale and mine and delivery.recipient not in self._seen:
                return self._book.deliveries.failed(delivery.batch, delivery.recipient, "no longer subscribed")
            return delivery

        report = report_of(self._book, self._notice, seen=settled)
        if began is not None:
            report.outside = self._outside
            self._book.deliveries.note(self._notice.shelf, self._notice.entry, outside=self._outside)
        return report

    def _start(self, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(*given, **named))

    async def _in_thread(self, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        return await self._start(call, *given, **named)
