"""Messages per second through the sensor, beside a bare loop that only creates the same runs; and what idling costs."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID, uuid4

TITLE = "Sensor"
ROUNDS, MESSAGES = 3, 100
QUEUES, IDLE_SECONDS = 100, 30.0


def measure() -> str:
    """Both peers in turns, against the same Prefect server on Postgres and the same local AWS."""
    with _house() as environment, ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            found = process.submit(_measured).result()
        finally:
            os.environ.clear()
            os.environ.update(before)
    sensor, bare = median(found["sensor"]), median(found["bare"])
    cpu, memory = found["idle"]
    lines = [
        "| what | runs per second | ratio |",
        "| --- | --- | --- |",
        f"| bare loop: create the run, nothing else | {bare:.1f} | 1.00 |",
        f"| sensor: receive, unpack, enter in the book, create, note | {sensor:.1f} | {sensor / bare:.2f} |",
        "",
        f"Median of {ROUNDS} rounds of {MESSAGES} messages, in turns; the sensor's clock runs from the first message "
        "sent to the last run noted in the book.",
        "",
        f"{QUEUES} idle queues cost the sensor {cpu:.1%} of one core and {memory:.0f} MB "
        f"(measured over {IDLE_SECONDS:.0f} s; goals: 5% and 250 MB).",
    ]
    return "\n".join(lines)


@contextmanager
def _house() -> Iterator[dict[str, str]]:
    from deployments.local_aws import process
    from workers.local_prefect import LocalPrefect
    from workers.parts import WITH_PARENT, free_port, start

    data = Path(tempfile.mkdtemp(prefix="postroom-bench-"))
    data.chmod(0o755)  # Postgres does not run as root
    port = free_port()
    environment = {
        **process.client_environment(port),
        WITH_PARENT: "1",
        "PREFECT_HOME": str(data / "client"),
        "PREFECT_PROFILES_PATH": str(data / "client" / "profiles.toml"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "POSTROOM_PREFIX": "bench",
        "DO_NOT_TRACK": "1",
    }
    aws = start(process.part(data / "aws", port))
    try:
        with LocalPrefect(data / "prefect", free_port(), free_port()) as server:
            yield {**environment, "PREFECT_API_URL": server.url}
    finally:
        aws.stop()
        shutil.rmtree(data, ignore_errors=True)


def _measured() -> dict[str, Any]:
    return asyncio.run(_rounds())


async def _rounds() -> dict[str, Any]:
    from prefect.client.orchestration import get_client

    from postroom.aws import provision
    from postroom.ledger.book import open_book
    from workers.sensor import Sensor

    provision.apply()
    found: dict[str, Any] = {"sensor": [], "bare": []}
    async with get_client() as prefect:
        flow = await prefect.create_flow_from_name("email-to-site")
        deployment = await prefect.create_deployment(flow, "email-to-site", entrypoint="nowhere.py:unserved")
        await _bare(prefect, deployment, 10)  # connections warm
        sensor = Sensor(open_book())
        running = asyncio.create_task(sensor.run())
        while not sensor.discovered:
            await asyncio.sleep(0.05)
        for _ in range(ROUNDS):
            found["bare"].append(await _bare(prefect, deployment, MESSAGES))
            found["sensor"].append(await _through(sensor, MESSAGES))
        sensor.stop()
        await running
    found["idle"] = await _idle()
    return found


async def _bare(prefect: Any, deployment: UUID, number: int) -> float:
    began = time.perf_counter()
    for _ in range(number):
        key = f"email:{uuid4().hex}"
        parameters = {"bucket": "mails", "key": f"incoming/{key}", "message_id": key}
        await prefect.create_flow_run_from_deployment(
            deployment, parameters=parameters, tags=["job:mail", f"key:{key}"], idempotency_key=key
        )
    return number / (time.perf_counter() - began)


async def _through(sensor: Any, number: int) -> float:
    from postroom.aws.clients import client
    from postroom.aws.queues import find_queue
    from postroom.ledger import State

    mails, queue = [uuid4().hex for _ in range(number)], find_queue(sensor.book.names.mail_queue)
    keys = [f"email:{each}" for each in mails]

    def send() -> None:
        for start in range(0, number, 10):
            bodies = [_notification(each) for each in mails[start : start + 10]]
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
            client("sqs").send_message_batch(QueueUrl=queue, Entries=entries)

    began = time.perf_counter()
    await asyncio.to_thread(send)
    while len([row for row in (await _rows(sensor, keys)).values() if row.run_id]) < number:
        await asyncio.sleep(0.1)
    rate = number / (time.perf_counter() - began)
    for key in keys:  # their bodies are no part of this
        await asyncio.to_thread(sensor.book.leases.close, key, State.DONE, "measured")
    while len(sensor.shelf):
        await asyncio.sleep(0.1)
    return rate


async def _rows(sensor: Any, keys: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = await asyncio.to_thread(sensor.book.leases.find_many, keys)
    return found


def _notification(mail: str) -> str:
    thing = {"bucket": {"name": "mails"}, "object": {"key": f"incoming/{mail}", "sequencer": "0A"}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": thing}]})


async def _idle() -> tuple[float, float]:
    """Share of a core and megabytes of a sensor process that listens to many silent queues."""
    import subprocess
    import sys

    import httpx
    import psutil

    from postroom.aws.clients import client
    from workers.parts import free_port

    for number in range(QUEUES - 2):  # mail and tasks are there already
        client("sqs").create_queue(QueueName=f"bench-changes-c{number}")
    port = free_port()
    sensor = subprocess.Popen(
        [sys.executable, "-m", "workers.sensor"],
        env={**os.environ, "POSTROOM_SENSOR_PORT": str(port)},
        stderr=subprocess.DEVNULL,
    )
    try:
        process, deadline = psutil.Process(sensor.pid), time.monotonic() + 60
        async with httpx.AsyncClient() as http:
            while True:
                try:
                    said = (await http.get(f"http://127.0.0.1:{port}/healthz")).json()
                    if len(said["queues"]) >= QUEUES:
                        break
                except httpx.HTTPError:
                    pass
                if time.monotonic() > deadline:
                    raise TimeoutError("the sensor did not find its queues")
                await asyncio.sleep(0.5)
        before, began = process.cpu_times(), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        after, seconds = process.cpu_times(), time.monotonic() - began
        used = after.user + after.system - before.user - before.system
        return used / seconds, process.memory_info().rss / 2**20
    finally:
        sensor.terminate()
        sensor.wait(15)


if __name__ == "__main__":
    print(measure())
