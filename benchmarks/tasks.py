"""Tasks per minute from the queue to completion with an agent that does nothing, on `light` and on `heavy`."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.private_prefect import private_prefect

TITLE = "Tasks"
ROUNDS = 2
TASK = {"name": "nothing", "prompt": "Say {{input.word}}.", "input": {"word": "hello"}, "example": "Hello."}
PLACES = 16  # so that places are not what is measured


@dataclass
class Pool:
    """One way to run tasks, and what was measured of it."""

    name: str
    number: int  # tasks per round
    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    per_minute: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of one task alone, from the queue to its end
    body: list[float] = field(default_factory=list)  # of these, from the lease to the end


def measure() -> str:
    """Both pools in turns, through one sensor, on one Prefect server and one local AWS."""
    process = ("-m", "prefect", "worker", "start", "--type", "process", "--pool", "heavy", "--limit", "4")
    pools = [
        Pool("light", 40, ("-m", "workers.light", "--pool", "light")),
        Pool("heavy", 4, process, {"PREFECT_WORKER_QUERY_SECONDS": "0.5"}),
    ]
    with private_prefect() as data, _aws(data), ExitStack() as stack:
        os.environ["POSTROOM_DATA"] = str(data)
        for pool in pools:
            stack.enter_context(_worker(pool, data / f"{pool.name}.log"))
        # In a process of its own: what Prefect reads when it is imported is then about this server.
        measuring = stack.enter_context(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
        pools = measuring.submit(_measured, pools).result()
    return _table(pools)


def _table(pools: list[Pool]) -> str:
    lines = [
        "| pool | tasks per minute | one task, queue to end | of that, from lease to end |",
        "| --- | --- | --- | --- |",
    ]
    for pool in pools:
        whole, body = median(pool.seconds), median(pool.body)
        rate = median(pool.per_minute)
        lines.append(f"| `{pool.name}` | {rate:.0f} | {whole:.2f} s | {body:.2f} s ({body / whole:.0%}) |")
    numbers = ", ".join(f"{pool.number} on {pool.name}" for pool in pools)
    lines += [
        "",
        f"Driver `literal`: the agent's own share is nothing, so all of the time is ours or Prefect's. Median of "
        f"{ROUNDS} rounds, in turns; bursts of {numbers}, from the first message sent to the last task done in the "
        "book. From lease to end is the flow's body: checks, place, record, four uploads, book. The rest is the "
        "queue, the sensor, and Prefect starting the run.",
    ]
    return "\n".join(lines)


@contextmanager
def _aws(data: Path) -> Iterator[None]:
    from deployments.local_aws import process
    from workers.parts import WITH_PARENT, free_port, start

    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="postroom-bench-aws-"))
    wanted = {
        **process.client_environment(port),
        WITH_PARENT: "1",
        "POSTROOM_PREFIX": "bench",
        "POSTROOM_AGENT": "literal",
        "POSTROOM_TASK_CONCURRENCY": str(PLACES),
    }
    before = {name: os.environ.get(name) for name in (*wanted, "POSTROOM_DATA")}
    os.environ.update(wanted)
    running = start(process.part(folder, port))
    try:
        yield
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _worker(pool: Pool, log: Path) -> Iterator[None]:
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [sys.executable, *pool.argv],
            env={**os.environ, **pool.environment},
            stdout=lines,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _measured(pools: list[Pool]) -> list[Pool]:
    asyncio.run(_rounds(pools))
    return pools


async def _rounds(pools: list[Pool]) -> None:
    from prefect.client.orchestration import get_client

    from deployments import limits
    from postroom.aws import provision
    from postroom.ledger.book import open_book
    from postroom.settings import settings
    from workers.sensor import Sensor

    await asyncio.to_thread(provision.apply)
    async with get_client() as client:
        await limits.deploy(client, settings(), dry_run=False)
        for pool in pools:
            await _ready(client, pool.name)
    sensor = Sensor(open_book())
    running = asyncio.create_task(sensor.run())
    try:
        while not sensor.discovered:
            await asyncio.sleep(0.05)
        for number in range(-1, ROUNDS):
            for pool in pools:
                async with get_client() as client:
                    await _deploy(client, pool.name)
                sensor.asking._deployments.clear()
                _, ends = await _burst(sensor, 1)
                if number < 0:  # the first loads the flow
                    continue
                pool.seconds.append(ends[0][0])
                pool.body.append(ends[0][1])
                rate, _ = await _burst(sensor, pool.number)
                pool.per_minute.append(rate)
                print(f"  round {number + 1}: {pool.name}: {rate:.0f}/min", file=sys.stderr, flush=True)
    finally:
        sensor.stop()
        await running


async def _ready(client: Any, pool: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            if await client.read_workers_for_work_pool(pool):
                return
        except Exception:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"no worker of {pool}"
        await asyncio.sleep(0.2)


async def _deploy(client: Any, pool: str) -> None:
    """The one deployment, moved from pool to pool: `prefect.yaml` decides, nothing in the flow knows."""
    from flows.agent_task import agent_task

    flow = await client.create_flow(agent_task)
    quick = {"command": f"{sys.executable} -m prefect.engine"} if pool == "heavy" else None
    await client.create_deployment(
        flow,
        "agent-task",
        work_pool_name=pool,
        entrypoint="flows.agent_task.agent_task",
        parameter_openapi_schema={},
        job_variables=quick,
    )


async def _burst(sensor: Any, number: int) -> tuple[float, list[tuple[float, float]]]:
    """Tasks per minute; and per task the seconds from sending to its end, and from its lease to its end."""
    from postroom.aws.clients import client
    from postroom.aws.queues import find_queue

    ids, queue = [uuid.uuid4().hex for _ in range(number)], find_queue(sensor.book.names.tasks_queue)
    keys = [f"task:{each}" for each in ids]

    def send() -> None:
        for each in ids:
            attribute = {"requestId": {"DataType": "String", "StringValue": each}}
            client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(TASK), MessageAttributes=attribute)

    sent, began = time.time(), time.perf_counter()
    await asyncio.to_thread(send)
    while True:
        rows = await asyncio.to_thread(sensor.book.leases.find_many, keys)
        if len([row for row in rows.values() if row.state == "done"]) == number:
            break
        assert not (bad := [row.reason for row in rows.values() if row.state == "failed"]), bad
        assert time.perf_counter() - began < 300, "not all tasks were done within 300 s"
        await asyncio.sleep(0.1)
    rate = 60 * number / (time.perf_counter() - began)
    ends = []
    for each, key in zip(ids, keys, strict=True) if number == 1 else ():
        events = await asyncio.to_thread(sensor.book.events.of_entity, f"TASK#{each}")
        started = next(event.at_ms for event in events if event.event_type == "Task Processing Started")
        ended = rows[key].ended_at
        ends.append((ended / 1000 - sent, (ended - started) / 1000))
    return rate, ends


if __name__ == "__main__":
    print(measure())
