"""The same deployment ends the same way on a stock process worker and on the light worker."""

import sys
import uuid
from pathlib import Path

from prefect import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun

from tests.workers.staff import ask, deploy, end_of, make_pool, ready, until, worker

FLOWS = ("talk", "greet_sync", "fail", "too_slow", "leave")

QUICK = {"command": f"{sys.executable} -m prefect.engine"}  # one process per run instead of two


async def history(run: FlowRun) -> list[str]:
    async with get_client() as client:
        states = await client.read_flow_run_states(run.id)
    # A process worker has a state more, while its process starts.
    return [state.name or "" for state in sorted(states, key=lambda s: s.timestamp) if state.name != "Submitting"]


async def lines_of(run: FlowRun) -> list[str]:
    async def said() -> list[str] | None:
        async with get_client() as client:
            logs = await client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])))
        texts = [log.message for log in logs]
        return texts if any("Finished in state" in text for text in texts) else None

    return await until(said, "logs of the run")


async def test_states_and_logs_are_the_same_on_both(prefect_server: str, tmp_path: Path) -> None:
    pools = {kind: f"{kind}-{uuid.uuid4().hex[:6]}" for kind in ("light", "process")}
    out = {kind: tmp_path / f"{kind}.log" for kind in pools}
    key = f"email:{uuid.uuid4().hex}"
    mark = f"[msg-{key.removeprefix('email:')}]"
    await make_pool(pools["process"], "process")
    with (
        worker("light", pools["light"], out["light"], POSTROOM_LOG_FORMAT="json"),
        worker("process", pools["process"], out["process"], "--limit", "5", PREFECT_WORKER_QUERY_SECONDS="0.5"),
    ):
        for pool in pools.values():
            await ready(pool)
        asked: dict[tuple[str, str], FlowRun] = {}
        for flow in FLOWS:
            for kind, pool in pools.items():
                tags = (f"key:{key}",) if flow == "talk" else ()
                made = await deploy(flow, pool, job_variables=QUICK if kind == "process" else None)
                asked[flow, kind] = await ask(made, tags=tags, path=str(tmp_path / f"{flow}.{kind}"))
        ended = {name: await end_of(run, 120) for name, run in asked.items()}
        said = {kind: await lines_of(asked["talk", kind]) for kind in pools}
    for flow in FLOWS:
        one, other = ended[flow, "light"], ended[flow, "process"]
        assert one.state.name == other.state.name, flow
        assert one.state.message == other.state.message, flow
        assert await history(one) == await history(other), flow
    for kind, lines in said.items():
        own = [line for line in lines if "in the flow" in line]
        assert own == [f"{mark} in the flow, password=[secret]"], kind
        assert len([line for line in lines if "Beginning flow run" in line or "Finished in state" in line]) == 2, kind
        assert [line for line in lines if not line.startswith(mark)] == [], kind
        output = out[kind].read_text()
        assert "hunter2" not in output
        for words in ("in the flow", "in the library", "in the child"):
            assert any(mark in line and words in line for line in output.splitlines()), (kind, words)
