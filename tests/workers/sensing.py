"""A sensor to watch, and the words with which tests speak of what it sees."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.aws.queues import find_queue
from postroom.ledger import Book, Granted, Row, State
from postroom.ledger.book import new_holder
from postroom.settings import load
from tests.patience import PATIENCE
from workers.parts import free_port
from workers.routes import Route
from workers.sensor import Sensor

QUICK = {  # seconds; long enough for a busy machine, short enough for a test
    "sweep_seconds": 0.5,
    "extend_seconds": 1.0,
    "visibility_seconds": 4,
    "promise_seconds": 2.0,
    "pending_seconds": 1.5,
}


def new_id() -> str:
    return uuid.uuid4().hex


async def until(true: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """What the question answers as soon as that is something; it may be a coroutine function."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        answer = true()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.05)


# Prefect


@contextlib.asynccontextmanager
async def deployments(*names: str) -> AsyncIterator[None]:
    """Deployments that nobody serves: their runs stay Scheduled, and tests play their bodies."""

    @flow(name="unserved")
    async def unserved() -> None:
        """Never run."""

    async with get_client() as prefect:
        made = []
        for name in names:
            flow_id = await prefect.create_flow_from_name(name)
            made.append(await prefect.create_deployment(flow_id, name, entrypoint="nowhere.py:unserved"))
        try:
            yield
        finally:
            for each in made:
                await prefect.delete_deployment(each)


async def runs_of(key: str) -> list[FlowRun]:
    async with get_client() as prefect:
        tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[f"key:{key}"]))
        return await prefect.read_flow_runs(flow_run_filter=tagged)


# AWS


def mail_event(*message_ids: str, bucket: str = "mails") -> str:
    return json.dumps({"Records": [record(f"incoming/{each}", bucket) for each in message_ids]})


def record(key: str, bucket: str = "mails", event: str = "ObjectCreated:Put", **thing: Any) -> dict[str, Any]:
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": event,
        "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 1, "sequencer": "0A1B2C", **thing}},
    }


def task_body(request_id: str | None = None, **more: Any) -> str:
    body = {"name": "sum", "prompt": "add", "input": {}, **more}
    return json.dumps({"requestId": request_id, **body} if request_id else body)


def send(queue: str, body: str, /, **attributes: str) -> str:
    """Its SQS message id."""
    typed = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    sent = client("sqs").send_message(QueueUrl=find_queue(queue), MessageBody=body, MessageAttributes=typed)
    return str(sent["MessageId"])


def left_in(queue: str) -> tuple[int, int]:
    """How many messages wait, and how many somebody holds."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client("sqs").get_queue_attributes(QueueUrl=find_queue(queue), AttributeNames=names)["Attributes"]
    return int(found[names[0]]), int(found[names[1]])


def dead_letters(queue: str, at_least: int = 1, seconds: float = 20) -> list[dict[str, Any]]:
    """What lies in the dead-letter queue, taken out of it."""
    url, found = find_queue(Names.dead_letters(queue)), []
    deadline = time.monotonic() + seconds
    while len(found) < at_least and time.monotonic() < deadline:
        answer = client("sqs").receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            MessageAttributeNames=["All"],
            VisibilityTimeout=600,
        )
        for each in answer.get("Messages", []):
            said = {name: value["StringValue"] for name, value in each.get("MessageAttributes", {}).items()}
            found.append({"body": each["Body"], **said})
    return found


# the book


def begin(book: Book, key: str, job: str = "mail") -> Granted:
    started = book.leases.start(key, job, new_holder())
    assert isinstance(started, Granted), started
    return started


def finish(book: Book, key: str, job: str = "mail", state: State = State.DONE) -> Row:
    return book.leases.finish(begin(book, key, job).lease, state, reason=None if state is State.DONE else "torn")


async def asked_for(book: Book, key: str, seconds: float = 20) -> Row:
    """The row of a key, once its run is known."""

    def row() -> Row | None:
        found = book.leases.find(key)
        return found if found is not None and found.run_id else None

    return await until(row, f"a run for {key}", seconds)


# sensors


@contextlib.asynccontextmanager
async def sensing(prefix: str, table: Sequence[Route] | None = None, **settings: Any) -> AsyncIterator[Sensor]:
    """A sensor in this process, until the end of the block."""
    sensor = Sensor(Book(load(prefix=prefix, **{**QUICK, **settings})), table)
    running = asyncio.create_task(sensor.run())
    try:
        await until(lambda: sensor.discovered or running.done(), "the sensor's first look at the queues")
        yield sensor
    finally:
        sensor.stop()
        await asyncio.wait_for(running, 12)


class SensorProcess:
    """`python -m workers.sensor`, as production starts it."""

    def __init__(self, log: Path, **environment: str) -> None:
        self.log, self.port = log, free_port()
        quick = {f"POSTROOM_{name.upper()}": str(value) for name, value in QUICK.items()}
        own = {"POSTROOM_SENSOR_PORT": str(self.port), "POSTROOM_END_WITH_PARENT": "1"}
        with log.open("ab") as lines:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.sensor"],
                env={**os.environ, **quick, **own, **environment},
                stdout=lines,
                stderr=subprocess.STDOUT,
            )

    def health(self) -> dict[str, Any] | None:
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5)
        except httpx.HTTPError:
            assert self.process.poll() is None, f"the sensor died:\n{self.log.read_text()[-3000:]}"
            return None
        return {"code": answer.status_code, **answer.json()}

    def holds(self) -> int:
        return int((self.health() or {}).get("held", 0))

    def ready(self) -> bool:
        health = self.health()
        return health is not None and bool(health["queues"])

    def terminate(self) -> float:
        """Seconds until it was gone after SIGTERM."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(15) == 0, self.log.read_text()[-3000:]
        return time.monotonic() - began


@contextlib.contextmanager
def sensor_processes(log: Path, number: int = 1, **environment: str) -> Iterator[list[SensorProcess]]:
    started = [SensorProcess(log.with_name(f"{log.name}-{n}.log"), **environment) for n in range(number)]
    try:
        yield started
    finally:
        for each in started:
            each.process.terminate()
        for each in started:
            try:
                each.process.wait(12)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()


class Line:
    """A telephone line to a server on this machine that can be cut and mended."""

    def __init__(self, url: str) -> None:
        self._far = (httpx.URL(url).host, httpx.URL(url).port)
        self.port, self._server, self._calls = free_port(), None, set()

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            for call in list(self._calls):
                call.cancel()
            self._server = None

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = asyncio.current_task()
        self._calls.add(call)
        far_writer = None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
            await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._calls.discard(call)
            for each in (writer, far_writer):
                if each is not None:
                    each.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(65536):
        writer.write(part)
        await writer.drain()
    writer.close()
