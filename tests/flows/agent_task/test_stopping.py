"""A run's own process is told to stop, as a worker tells it: the task is handed back whole."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from prefect.client.orchestration import get_client

from postroom.ledger import State
from tests.fixtures.model import Model, say
from tests.flows.agent_task.conftest import Room

ROOT = Path(__file__).parents[3]


async def test_a_run_that_is_told_to_stop_hands_its_task_back_and_leaves_no_process(room: Room, model: Model) -> None:
    model.script(say("At it.", stall=120))
    told = {"name": "shorten", "prompt": "Shorten {{input.text}}", "input": {"text": "a long letter"}}
    async with get_client() as client:
        flow_id = await client.create_flow_from_name("agent-task")
        deployment = await client.create_deployment(
            flow_id, f"stopped-{room.request_id}", entrypoint="flows.agent_task.agent_task"
        )
        run = await client.create_flow_run_from_deployment(
            deployment, parameters={"request_id": room.request_id, "task": told}
        )
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect.engine"],
        env={**os.environ, "PREFECT__FLOW_RUN_ID": str(run.id)},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not model.requests:
            assert process.poll() is None
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        assert family, "the agent works in a process of its own"
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 120)
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert (room.row.state, room.row.attempts, room.row.holder) == (State.WAITING, 0, None)
    assert room.events() == ["Processing Started", "Handed Back"]
