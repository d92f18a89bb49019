"""Starts every scheduled run of the pool `heavy` with the command line of its ECS pools, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.states import Pending

from deployments.work_pools import ECS_ENVIRONMENT

COMMAND = [sys.executable, "-m", *shlex.split("prefect flow-run execute")]
ROOT = Path(__file__).parents[1]


async def main() -> None:
    async with get_client() as client:
        while True:
            for found in await client.get_scheduled_flow_runs_for_work_pool("heavy"):
                run = found.flow_run
                await client.set_flow_run_state(run.id, Pending())
                env = {**os.environ, **ECS_ENVIRONMENT, "PREFECT__FLOW_RUN_ID": str(run.id)}
                await asyncio.create_subprocess_exec(*COMMAND, env=env, cwd=ROOT)
            await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(main())
