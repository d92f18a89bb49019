"""Deployments of real flows on a light pool, with a worker and a sensor that can be killed."""

import contextlib
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.exceptions import ObjectNotFound
from prefect.flows import load_flow_from_entrypoint

from tests.workers.sensing import QUICK, sensor_processes
from tests.workers.staff import make_pool, worker

ENVIRONMENT = {f"POSTROOM_{name.upper()}": str(value) for name, value in QUICK.items()}


@contextlib.asynccontextmanager
async def deployed(*modules: str) -> AsyncIterator[str]:
    """The name of a light pool on which these flows are deployed, each under its own name."""
    pool = f"light-{uuid.uuid4().hex[:8]}"
    await make_pool(pool, "light")
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name("agent-tasks")
        except ObjectNotFound:
            limit = GlobalConcurrencyLimitCreate(name="agent-tasks", limit=3, active=True)
            await client.create_global_concurrency_limit(limit)
        made = []
        for module in modules:
            entrypoint = f"flows.{module}.{module}"
            flow = load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)
            flow_id = await client.create_flow(flow)
            made.append(await client.create_deployment(flow_id, flow.name, work_pool_name=pool, entrypoint=entrypoint))
        try:
            yield pool
        finally:
            for each in made:
                with contextlib.suppress(ObjectNotFound):
                    await client.delete_deployment(each)


@contextlib.contextmanager
def staff(pool: str, logs: Path, **environment: Any) -> Iterator[list[int]]:
    """A light worker and a sensor; their process ids."""
    quick = {"POSTROOM_END_WITH_PARENT": "1", "POSTROOM_LIGHT_POLL_SECONDS": "1"}
    surroundings = {**ENVIRONMENT, **quick, **environment}
    with (
        worker("light", pool, logs / "light.log", **surroundings) as light,
        sensor_processes(logs / "sensor", **surroundings) as [sensor],
    ):
        yield [light.pid, sensor.process.pid]


def kill(pids: list[int]) -> None:
    """Without a warning."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
