"""Who told an edit to stop: a person, or the newer edit that it has to make way for.

Both look the same in Prefect. But a newer edit's run is made before the older one is told to stop, so a
cancellation from before that run was made is a person's. Both times are the server's: no two clocks are compared.
"""

from __future__ import annotations

import logging
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterIdempotencyKey
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound

log = logging.getLogger("postroom.flows")
TOLD_TO_STOP = (StateType.CANCELLING, StateType.CANCELLED)


async def cancelled_by_a_person(run_id: str | None, project: str, generation: int) -> int | None:
    """When a person cancelled the run of this edit, in ms since the epoch; None when nobody did, or nobody knows."""
    if not run_id:
        return None
    try:
        async with get_client() as client:
            at = await _told_to_stop(client, run_id)
            newer = await _made(client, f"edit:{project}:{generation + 1}")
    except Exception as error:  # what is not known to be unwanted is carried out
        log.warning("can't ask Prefect who cancelled edit:%s:%d: %s", project, generation, error)
        return None
    if at is None or (newer is not None and newer <= at):
        return None
    return int(at.timestamp() * 1000)


async def _told_to_stop(client: PrefectClient, run_id: str) -> datetime | None:
    try:
        states = await client.read_flow_run_states(UUID(run_id))
    except ObjectNotFound:
        return None
    at = None
    for state in sorted(states, key=lambda state: state.timestamp, reverse=True):
        if state.type not in TOLD_TO_STOP:
            break
        at = state.timestamp  # the first of the last ones: Cancelling, not the Cancelled that follows
    return at


async def _made(client: PrefectClient, key: str) -> datetime | None:
    keyed = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key]))
    return next((run.created for run in await client.read_flow_runs(flow_run_filter=keyed, limit=1)), None)
