"""What Prefect says about its own health: runs that are late, pools whose workers are silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateName,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound

from postroom.settings import Settings

SILENT = timedelta(seconds=120)
PAGE = 200


async def late_runs(most: int = 1000) -> list[tuple[str, int]]:
    """The flow and the due time (ms) of each run that should have begun."""
    found: list[tuple[str, int]] = []
    flows: dict[str, str] = {}
    wanted = FlowRunFilter(
        state=FlowRunFilterState(
            type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]), name=FlowRunFilterStateName(any_=["Late"])
        )
    )
    async with get_client() as client:
        while len(found) < most:
            page = await client.read_flow_runs(flow_run_filter=wanted, limit=PAGE, offset=len(found))
            for run in page:
                due = run.next_scheduled_start_time or run.expected_start_time or datetime.now(UTC)
                found.append((await _flow_of(client, run, flows), int(due.timestamp() * 1000)))
            if len(page) < PAGE:
                break
    return found


async def _flow_of(client: PrefectClient, run: FlowRun, known: dict[str, str]) -> str:
    key = str(run.flow_id)
    if key not in known:
        known[key] = (await client.read_flow(run.flow_id)).name
    return known[key]


async def silent_pools(s: Settings) -> list[str]:
    """Pools that are there, but of whose workers none has reported lately. A push pool has none."""
    pools = ["light"] if s.heavy_pool == "ecs:push" else ["light", "heavy"]
    silent = []
    async with get_client() as client:
        for pool in pools:
            try:
                workers = await client.read_workers_for_work_pool(pool)
            except ObjectNotFound:
                continue  # not deployed here
            now = datetime.now(UTC)
            if not any(each.last_heartbeat_time and now - each.last_heartbeat_time < SILENT for each in workers):
                silent.append(pool)
    return silent
