"""Workers as real processes, and the words with which tests give them work."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectAlreadyExists
from prefect.states import Cancelling, Scheduled

from tests.patience import PATIENCE
from tests.workers import light_flows
from workers import logs

HERE = Path(__file__).parent


@contextmanager
def worker(
    kind: str, pool: str, log: Path, *more: str, prefects_command: bool = False, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of a kind (`light`, or a stock one) serving the pool; ended at the end of the block."""
    argv = [sys.executable, "-m", "workers.light"]
    if kind != "light" or prefects_command:
        argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", kind]
    argv += ["--pool", pool, *more]
    with log.open("ab") as lines:
        process = subprocess.Popen(
            argv, env={**os.environ, **logs.environment(), **environment}, stdout=lines, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def until(true: Callable[[], Awaitable[Any]], what: str, seconds: float = 20) -> Any:
    """What the question answers as soon as that is something."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not (answer := await true()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.05)
    return answer


async def ready(pool: str, workers: int = 1) -> None:
    """Returns when so many workers have reported to the pool."""

    async def reported() -> bool:
        async with get_client() as client:
            try:
                return len(await client.read_workers_for_work_pool(pool)) >= workers
            except Exception:
                return False

    await until(reported, f"workers of {pool}", 40)


async def deploy(
    flow: str, pool: str, *, entrypoint: str | None = None, path: str = str(HERE), **more: Any
) -> uuid.UUID:
    """A deployment of one of the test flows."""
    async with get_client() as client:
        flow_id = await client.create_flow(getattr(light_flows, flow))
        return await client.create_deployment(
            flow_id,
            f"{flow}-{uuid.uuid4().hex[:6]}",
            work_pool_name=pool,
            entrypoint=entrypoint or f"light_flows.py:{flow}",
            path=path,
            **more,
        )


async def make_pool(pool: str, kind: str) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.workers.base import BaseWorker

    of_kind = BaseWorker.get_worker_class_from_type(kind)
    assert of_kind, f"no worker type {kind!r}"
    async with get_client() as client:
        try:
            await client.create_work_pool(
                WorkPoolCreate(name=pool, type=kind, base_job_template=of_kind.get_default_base_job_template())
            )
        except ObjectAlreadyExists:
            pass


async def ask(
    deployment: uuid.UUID, at: datetime | None = None, tags: tuple[str, ...] = (), **parameters: Any
) -> FlowRun:
    """A run of the deployment."""
    async with get_client() as client:
        return await client.create_flow_run_from_deployment(
            deployment, parameters=parameters, tags=tags, state=Scheduled(scheduled_time=at) if at else None
        )


async def end_of(run: FlowRun, seconds: float = 20) -> FlowRun:
    """The run when it has ended."""

    async def ended() -> FlowRun | None:
        async with get_client() as client:
            now = await client.read_flow_run(run.id)
        return now if now.state and now.state.is_final() else None

    return await until(ended, f"end of {run.name}", seconds)


async def cancel(run: FlowRun) -> None:
    async with get_client() as client:
        await client.set_flow_run_state(run.id, Cancelling())


def notes(path: Path) -> dict[str, float]:
    """What bodies wrote, with the time of each."""
    return {line.split()[0]: float(line.split()[1]) for line in path.read_text().splitlines()} if path.exists() else {}


async def noted(path: Path, word: str, seconds: float = 20) -> float:
    async def there() -> float | None:
        return notes(path).get(word)

    return await until(there, f"{word!r} in {path.name}", seconds)
