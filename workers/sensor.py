"""The sensor: sees what arrives in the queues, and turns each message into one run.

    queue ── long poll ──▶ shelf ── unpack ──▶ the book ──▶ Prefect run
                             │  extended every 20 s              │
                             ◀── deleted when the book says that the work has ended

`python -m workers.sensor` runs until SIGTERM or SIGINT; SIGHUP looks for new queues at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from postroom.aws.clients import client, region
from postroom.errors import Misconfigured, PostroomError, classify
from postroom.ledger import Book
from postroom.ledger.book import open_book
from postroom.ledger.dynamo import code_of
from postroom.logs import start_logging
from workers.asking import ask_prefect
from workers.dead_letters import DeadLetters
from workers.duties import DUTIES, Means, attend
from workers.health import serve
from workers.held import Held, Shelf
from workers.intake import BookCalls, Intake
from workers.keeping import Keeping
from workers.orders import Message
from workers.parts import end_with_parent
from workers.patience import Patience
from workers.routes import Route, routes
from workers.sweeper import Sweeper

log = logging.getLogger("postroom.sensor")
LONG_POLL = 20
DISCOVER_SECONDS = 15.0
DEAD_AFTER_SECONDS = 75.0  # nearly four long polls without an answer
STOP_SECONDS = 9.0  # after that we go as we are: what was not given back is seen when its visibility is over
_NO_QUEUE = {"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}


class Sensor:
    """One sensor. `run()` until `stop()`."""

    def __init__(self, book: Book, table: Sequence[Route] | None = None) -> None:
        self.book, self.settings = book, book.settings
        self.table = tuple(table if table is not None else routes(self.settings))
        self.shelf = Shelf()
        self.polled: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self.discovered = 0.0
        self.aws_reachable: bool | None = None
        self._pollers: dict[str, asyncio.Task[None]] = {}
        self._intakes: set[asyncio.Task[None]] = set()
        self._missing: set[str] = set()
        self._started = time.time()
        self._stopping = asyncio.Event()
        self._discover_now = asyncio.Event()

    # life

    async def run(self) -> None:
        """Until somebody calls `stop`; then everything held is given back."""
        async with AsyncExitStack() as stack:
            self.calls = BookCalls(self.book)
            stack.callback(self.calls.close)
            self._sqs = await stack.enter_async_context(_sqs_client())
            self.asking = await stack.enter_async_context(ask_prefect())
            self.dead = DeadLetters(self._sqs, self._keep_aside)
            self.intake = Intake(self._sqs, self.asking, self.calls, self.shelf, self.dead)
            keeping = Keeping(self._sqs, self.shelf, self.intake, self.settings)
            means = Means(self.calls, self.asking, Sweeper(self.asking, self.calls))
            if self.settings.sensor_port:
                stack.callback((await self._serve(self.settings.sensor_port)).close)
            steady = [self._discover(), self._watch(), keeping.keep()]
            steady += [attend(duty, means, self.done) for duty in DUTIES]
            tasks = [asyncio.create_task(each) for each in steady]
            stopped = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            finally:
                working = [*self._pollers.values(), *self._intakes, *tasks, stopped]
                for each in working:
                    each.cancel()
                await asyncio.wait(working, timeout=2)
                given = await keeping.give_back()
                log.info("stopped; %d messages given back", given)
            for each in tasks:  # one that ended by itself is a fault of ours: say so
                if each.done() and not each.cancelled():
                    each.result()

    async def _serve(self, port: int) -> asyncio.Server:
        try:
            return await serve(port, self.report)
        except OSError as error:
            raise Misconfigured(f"POSTROOM_SENSOR_PORT is {port}: {error.strerror or error}") from None

    def stop(self) -> None:
        self._stopping.set()

    def discover(self) -> None:
        """Look for new queues now."""
        self._discover_now.set()

    # queues

    async def _discover(self) -> None:
        patience = Patience()
        while True:
            self._discover_now.clear()
            try:
                self._follow(await self._queues())
                self.discovered = time.time()
                patience.again()
                pause = DISCOVER_SECONDS
            except Exception as error:
                self.aws_reachable = False
                log.warning("queues can't be looked up: %s", classify(error))
                pause = patience.next()
            try:
                await asyncio.wait_for(self._discover_now.wait(), pause)
            except TimeoutError:
                pass

    async def _queues(self) -> dict[str, tuple[Route, str]]:
        """Every queue that there is for a route, by name, with its URL."""
        found: dict[str, tuple[Route, str]] = {}
        for route in self.table:
            if route.prefix is None:
                try:
                    found[route.queue] = (route, (await self._sqs.get_queue_url(QueueName=route.queue))["QueueUrl"])
                    self._missing.discard(route.queue)
                except ClientError as error:
                    if code_of(error) not in _NO_QUEUE:
                        raise
                    if route.queue not in self._missing:
                        self._missing.add(route.queue)
                        log.warning("there is no queue %s yet", route.queue)
                continue
            pages = self._sqs.get_paginator("list_queues").paginate(
                QueueNamePrefix=route.prefix, PaginationConfig={"PageSize": 1000}
            )
            async for page in pages:
                for url in page.get("QueueUrls", []):
                    name = url.rsplit("/", 1)[-1]
                    if not name.endswith("-dlq"):
                        found[name] = (route, url)
        self.aws_reachable = True
        return found

    def _follow(self, queues: dict[str, tuple[Route, str]]) -> None:
        for name in [name for name, task in self._pollers.items() if name not in queues or task.done()]:
            task = self._pollers.pop(name)
            self.polled.pop(name, None)
            if task.done() and not task.cancelled() and (error := task.exception()):
                log.error("polling %s failed and begins anew: %r", name, error)
            elif name not in queues:
                log.info("queue %s is gone", name)
            task.cancel()
        for name, (route, url) in queues.items():
            if name not in self._pollers:
                log.info("listening to %s", name)
                self.polled[name] = time.time()  # until its first poll is over
                self._pollers[name] = asyncio.create_task(self._poll(name, route, url), name=f"poll {name}")

    async def _poll(self, queue: str, route: Route, url: str) -> None:
        patience = Patience()
        while True:
            if not (room := self.shelf.room(queue, route.hold)):
                self.polled[queue] = time.time()  # not polling on purpose is as good as polling
                await self.shelf.moved(5)
                continue
            try:
                answer = await self._sqs.receive_message(
                    QueueUrl=url,
                    MaxNumberOfMessages=min(10, room),
                    WaitTimeSeconds=LONG_POLL,
                    VisibilityTimeout=self.settings.visibility_seconds,
                    MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
                    MessageAttributeNames=["All"],
                )
            except Exception as error:
                if isinstance(error, ClientError) and code_of(error) in _NO_QUEUE:
                    self.discover()
                else:
                    self.aws_reachable = False
                    if patience.failures in (0, 5) or patience.failures % 50 == 0:
                        log.warning("%s can't be polled: %s", queue, classify(error))
                await patience.wait()
                continue
            patience.again()
            self.aws_reachable, self.polled[queue] = True, time.time()
            for raw in answer.get("Messages", []):
                self._receive(Message.of(queue, url, raw), route)

    def _receive(self, message: Message, route: Route) -> None:
        known = self.shelf.find(message.id)
        if known is not None:  # its visibility had run out, and it came to us again
            known.message, known.failures, known.extended = message, 0, time.monotonic()
            return
        held = Held(message, route)
        self.shelf.put(held)
        task = asyncio.create_task(self._take_in(held), name=f"take in {message.id}")
        self._intakes.add(task)
        task.add_done_callback(self._intakes.discard)

    async def _take_in(self, held: Held) -> None:
        try:
            await self.intake.take_in(held)
        except Exception:
            # SQS shows it again when its visibility is over; the poison guard ends that.
            log.exception("%s: message %s could not be taken in", held.message.queue, held.message.id)
            self.shelf.take(held)

    # endings

    async def _watch(self) -> None:
        """Look into the book for what is held; end what has ended there."""
        patience = Patience()
        while True:
            due = self.shelf.to_look_at()
            keys = [key for held in due for key in held.parcel.keys]
            try:
                rows = await self.calls(self.book.leases.find_many, keys) if keys else {}
                patience.again()
            except Exception as error:
                log.warning("the book can't be read: %s", classify(error))
                await patience.wait()
                continue
            for held in due:
                found = [rows.get(key) for key in held.parcel.keys]
                if all(row is not None and row.terminal for row in found):
                    held.ending = True
                    task = asyncio.create_task(self._conclude(held, rows))
                    self._intakes.add(task)
                    task.add_done_callback(self._intakes.discard)
                elif None in found:
                    log.error("%s: the book has lost the row of message %s", held.message.queue, held.message.id)
                    self.shelf.take(held)  # it comes again, and is entered again
                else:
                    self.shelf.saw(held, [row for row in found if row is not None], self.book.clock.now_ms())
            await (asyncio.sleep(0.1) if len(self.shelf) else self.shelf.moved(5))

    async def _conclude(self, held: Held, rows: dict[str, Any]) -> None:
        try:
            await self.intake.conclude(held, rows)
        except Exception as error:
            log.warning("%s: message %s could not be ended yet: %s", held.message.queue, held.message.id, error)
            held.look_at, held.ending = time.monotonic() + 1.0, False

    async def _keep_aside(self, name: str, body: bytes) -> str:
        bucket = self.book.names.tasks_bucket
        await self.calls(client("s3").put_object, Bucket=bucket, Key=name, Body=body)
        return f"s3://{bucket}/{name}"

    # telling

    def report(self) -> tuple[bool, dict[str, Any]]:
        """Whether it polls, and what it holds."""
        now = time.time()
        # One queue that nobody polls any more is enough; that queues can be looked up says nothing about polling.
        oldest_sign = min(self.polled.values(), default=max(self._started, self.discovered))
        alive = now - oldest_sign < DEAD_AFTER_SECONDS and not self._stopping.is_set()
        oldest: dict[str, float] = {}
        for held in self.shelf:
            oldest[held.message.queue] = max(oldest.get(held.message.queue, 0.0), held.age)
        queues = {
            name: {
                "held": self.shelf.count(name),
                "oldest_seconds": round(oldest.get(name, 0.0), 1),
                "polled_seconds_ago": round(now - self.polled[name], 1) if name in self.polled else None,
            }
            for name in sorted(self._pollers)
        }
        return alive, {
            "status": "ok" if alive else "polling is dead",
            "held": len(self.shelf),
            "queues": queues,
            "duties": {name: round(now - at, 1) for name, at in self.done.items()},
            "prefect_reachable": getattr(getattr(self, "asking", None), "reachable", None),
            "aws_reachable": self.aws_reachable,
            "seconds_up": round(now - self._started, 1),
        }


def _sqs_client() -> Any:
    config = AioConfig(
        connect_timeout=5,
        read_timeout=LONG_POLL + 10,
        max_pool_connections=2000,  # each queue's long poll keeps one
        retries={"mode": "standard", "total_max_attempts": 2},
    )
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    return get_session().create_client("sqs", region_name=region(), endpoint_url=endpoint, config=config)


async def _main() -> None:
    sensor = Sensor(open_book())
    loop = asyncio.get_running_loop()

    def stop() -> None:
        sensor.stop()
        timer = threading.Timer(STOP_SECONDS, os._exit, [0])
        timer.daemon = True
        timer.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, sensor.discover)
    await sensor.run()


def main() -> None:
    end_with_parent()
    start_logging()
    for noisy in ("httpx", "botocore", "aiobotocore", "prefect.events"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        asyncio.run(_main())
        code = 0
    except PostroomError as error:
        log.error("%s", error)
        code = error.exit_code
    except Exception:
        log.exception("the sensor fell")
        code = 70
    logging.shutdown()
    os._exit(code)  # a thread that waits for an AWS that is away must not keep us beyond our ten seconds


if __name__ == "__main__":
    main()
