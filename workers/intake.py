"""A received message on its way into the book and to Prefect; and off the shelf when the book says it has ended."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from postroom.errors import AuthFailed, BadInput, Misconfigured, Missing, OurFault, PostroomError, classify
from postroom.ledger import Book, Row, State
from postroom.ledger.dynamo import is_impossible
from postroom.ledger.entities import event_about
from postroom.logs import correlate
from workers.asking import Asking
from workers.dead_letters import DeadLetters, sendable
from workers.held import Held, Shelf
from workers.orders import Order, Parcel, Spoiled
from workers.patience import Patience
from workers.telling import tell

log = logging.getLogger("postroom.sensor")
T = TypeVar("T")
_MENDED_BY_PEOPLE = (Missing, AuthFailed, Misconfigured)  # a deployment not there yet, a key that ran out
GIVE_UP = 5
REMEMBER_BURIED = 10_000
_GONE = {"ReceiptHandleIsInvalid", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}


class BookCalls:
    """The book, called from an event loop: its calls block, so they go to a few threads."""

    def __init__(self, book: Book, threads: int = 8) -> None:
        self.book = book
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="book")

    async def __call__(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: call(*args, **kwargs))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Intake:
    """What happens to one message."""

    def __init__(self, sqs: Any, asking: Asking, calls: BookCalls, shelf: Shelf, dead: DeadLetters) -> None:
        self._sqs, self._asking, self._calls, self._shelf, self._dead = sqs, asking, calls, shelf, dead
        self._book = calls.book
        # Pieces of messages, by SQS id, that are dead letters: a message that comes again is not buried twice.
        # A sensor killed between burying and deleting forgets it, and there are two letters; a redrive of both is
        # done once, for they say the same key.
        self._buried: OrderedDict[tuple[str, int], None] = OrderedDict()
        self.poison_receives = self._book.settings.poison_receives

    # in

    async def take_in(self, held: Held) -> None:
        """Unpack, enter into the book, ask for the runs. Comes back only when that is done, however long it takes."""
        tell("received", held.message)
        if held.route.act is not None:
            return await self._act(held)
        held.parcel = await self._opened(held)
        for why in held.parcel.ignored:
            log.info("%s: ignored: %s", held.message.queue, why)
        for order in held.parcel.orders:
            with correlate(order.correlation):
                await self._patiently(order.correlation, lambda order=order: self._order(held, order))
        worn = held.message.receives >= self.poison_receives
        held.ending = worn or not held.parcel.orders  # then it is ours to end, not the watch's
        self._shelf.asked(held)
        if not held.parcel.orders:
            await self._patiently(held.message.id, lambda: self.conclude(held, {}))
        elif worn:
            await self._patiently(held.message.id, lambda: self.renew(held))  # healthy: its copy counts from one
        return None

    async def _opened(self, held: Held) -> Parcel:
        message = held.message
        try:
            parcel = held.route.open(message)
        except Exception as error:
            log.exception("%s: message %s could not be unpacked", message.queue, message.id)
            return Parcel(spoiled=[Spoiled(message.body, OurFault(f"unpacking failed: {type(error).__name__}"))])
        if message.receives >= self.poison_receives and parcel.orders:
            # At the next receive SQS itself would dead-letter it, without a word. What is in the book was
            # readable, and the book counts its attempts: only the rest is poison.
            known = await self._patiently(message.id, lambda: self._calls(self._book.leases.find_many, parcel.keys))
            poison = [order for order in parcel.orders if order.key not in known]
            if poison:
                error = BadInput(f"received {message.receives} times, and never got as far as the book")
                spoiled = [Spoiled(order.body, error) for order in poison]
                rest = [order for order in parcel.orders if order.key in known]
                return Parcel(rest, [*parcel.spoiled, *spoiled], parcel.ignored)
        return parcel

    async def _order(self, held: Held, order: Order) -> None:
        leases = self._book.leases
        try:
            row, new = await self._calls(leases.enter, order.key, order.job, order.work, event=order.received)
        except Exception as error:
            if not is_impossible(error):
                raise
            held.parcel = _without(held.parcel, order, classify(error))
            return
        if row.terminal or row.run_id:
            return  # somebody asked before; if its run is in trouble the sweeper sees to it
        try:
            run = await self._asking.ask(order.key, order.work, order.correlation)
        except PostroomError as error:
            if error.category != "validation":
                raise
            reason = f"Prefect does not accept the run: {error}"
            failed = event_about(order.job, order.key, "Failed", error=reason, category=error.category)
            await self._calls(leases.close, order.key, State.FAILED, reason, event=failed, category=error.category)
            return
        await self._calls(leases.note_run, order.key, str(run.id))
        log.info("%s: run %s", order.key if new else f"{order.key} (again)", run.name)
        tell("held", held.message, key=order.key, run=str(run.id))

    async def _act(self, held: Held) -> None:
        assert held.route.act is not None
        try:
            await held.route.act(held.message)
        except Exception as error:
            ours = classify(error)
            if ours.retryable:
                log.warning("%s: message %s is tried again later: %s", held.message.queue, held.message.id, ours)
                self._shelf.take(held)  # SQS shows it again when its visibility is over
                return
            held.parcel = Parcel(spoiled=[Spoiled(held.message.body, ours)])
        held.ending = True
        self._shelf.asked(held)
        await self._patiently(held.message.id, lambda: self.conclude(held, {}))

    async def _patiently(self, about: str, step: Callable[[], Any]) -> Any:
        """The step's answer, tried until it gives one. The message is held meanwhile, so nothing is lost."""
        patience = Patience()
        while True:
            try:
                return await step()
            except Exception as error:
                ours = classify(error)
                if not ours.retryable and not isinstance(ours, _MENDED_BY_PEOPLE) and patience.failures >= GIVE_UP:
                    raise
                if patience.failures in (0, 4) or patience.failures % 20 == 19:
                    log.warning("%s waits: %s", about, ours)
                await patience.wait()

    # out

    async def conclude(self, held: Held, rows: Mapping[str, Row]) -> None:
        """Everything in it has ended: keep what failed as dead letters, then delete the message."""
        orders = held.parcel.orders
        await self._bury_spoiled(held)
        for number, order in enumerate(orders, len(held.parcel.spoiled)):
            row = rows[order.key]
            if row.state is State.FAILED:
                reason, category = row.reason or "failed without a reason", str(row.outcome.get("category", "failed"))
                await self._bury(held, number, order.body, reason, category, order.key)
        await self._delete(held)
        self._shelf.take(held)
        ends = ",".join(rows[order.key].state.value for order in orders)
        tell("released", held.message, ends=ends or "nothing to do")

    async def _bury_spoiled(self, held: Held) -> None:
        for number, each in enumerate(held.parcel.spoiled):
            if each.event is not None and (held.message.id, number) not in self._buried:
                await self._calls(self._book.events.append, each.event)
            await self._bury(held, number, each.body, str(each.error), each.error.category, None)

    async def _bury(self, held: Held, number: int, body: str, reason: str, category: str, key: str | None) -> None:
        piece = (held.message.id, number)
        if piece in self._buried:
            return
        await self._dead.bury(held.message, body, reason, category, key)
        self._buried[piece] = None
        if len(self._buried) > REMEMBER_BURIED:
            self._buried.popitem(last=False)
        log.warning("%s: %s is a dead letter: %s", held.message.queue, key or f"message {held.message.id}", reason)
        tell("dead-lettered", held.message, key=key or "", reason=reason, category=category)

    async def _delete(self, held: Held) -> None:
        try:
            await self._sqs.delete_message(QueueUrl=held.message.url, ReceiptHandle=held.message.receipt)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in _GONE:
                raise

    async def renew(self, held: Held) -> None:
        """Send a copy, delete the old one, await the copy: SQS lets nobody hold a message longer than 12 h.

        What is spoiled in it is a dead letter first; a copy of that would be poison for ever.
        """
        await self._bury_spoiled(held)
        bodies = [held.message.body]
        if held.parcel.spoiled:
            bodies = list(dict.fromkeys(order.body for order in held.parcel.orders))
        attributes = {name: sendable(value) for name, value in held.message.attributes.items()}
        for body in bodies[held.copied :]:
            await self._sqs.send_message(QueueUrl=held.message.url, MessageBody=body, MessageAttributes=attributes)
            held.copied += 1
        await self._delete(held)
        self._shelf.take(held)
        log.info("%s: message %s is replaced by a copy", held.message.queue, held.message.id)
        tell("renewed", held.message)


def _without(parcel: Parcel, order: Order, error: PostroomError) -> Parcel:
    rest = [each for each in parcel.orders if each is not order]
    return Parcel(rest, [*parcel.spoiled, Spoiled(order.body, error)], parcel.ignored)
