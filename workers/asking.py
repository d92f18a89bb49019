"""Asking Prefect for runs: one after the other, by idempotency key, with errors of our own tree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled, Scheduled, State

from flows.once import RESCHEDULED
from postroom.errors import Missing, PostroomError, TimedOut, classify
from postroom.ledger import Work

REMEMBER_SECONDS = 60.0
CALL_SECONDS = 30.0
PAGE = 200


class Asking:
    """The sensor's line to the Prefect server."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._turn = asyncio.Lock()  # several creators at once slow the server down more than they gain
        self._deployments: dict[str, tuple[UUID, float]] = {}
        self.reachable: bool | None = None

    async def ask(self, key: str, work: Work, name: str | None = None) -> FlowRun:
        """The run of a key, made now or long ago; Missing when its deployment is not there."""
        async with self._turn:
            for fresh in (False, True):
                deployment = await self._deployment(work.deployment, fresh)
                try:
                    return await self._call(
                        self._client.create_flow_run_from_deployment(
                            deployment,
                            parameters=dict(work.parameters),
                            tags=work.tags,
                            idempotency_key=key,
                            name=name,
                        )
                    )
                except Missing:
                    if fresh:
                        raise
        raise AssertionError("unreachable")

    async def _deployment(self, name: str, fresh: bool) -> UUID:
        known = self._deployments.get(name)
        if known and not fresh and time.monotonic() - known[1] < REMEMBER_SECONDS:
            return known[0]
        try:
            found = await self._call(self._client.read_deployment_by_name(f"{name}/{name}"))
        except Missing:
            self._deployments.pop(name, None)
            raise Missing(f"Prefect has no deployment {name}/{name}") from None
        self._deployments[name] = (found.id, time.monotonic())
        return found.id

    async def runs(self, ids: Sequence[str]) -> dict[str, FlowRun]:
        """Runs by id, those that exist."""
        found: dict[str, FlowRun] = {}
        for start in range(0, len(ids), PAGE):
            page = [UUID(each) for each in ids[start : start + PAGE]]
            wanted = FlowRunFilter(id=FlowRunFilterId(any_=page))
            for run in await self._call(self._client.read_flow_runs(flow_run_filter=wanted, limit=PAGE)):
                found[str(run.id)] = run
        return found

    async def reschedule(self, run_id: str, why: str) -> None:
        """Put a run back to Scheduled, whatever state it is in: its body begins anew."""
        await self._set(run_id, Scheduled(name=RESCHEDULED, message=why))

    async def cancel(self, run_id: str, why: str) -> None:
        """End a run that nobody executes."""
        await self._set(run_id, Cancelled(message=why))

    async def _set(self, run_id: str, state: State[Any]) -> None:
        await self._call(self._client.set_flow_run_state(run_id, state, force=True))

    async def answers(self) -> bool:
        """Whether the server is there."""
        try:
            async with asyncio.timeout(5):
                self.reachable = await self._client.api_healthcheck() is None
        except Exception:
            self.reachable = False
        return self.reachable

    async def _call(self, call: Any) -> Any:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answer = await call
        except ObjectNotFound as error:
            self.reachable = True
            raise Missing(f"Prefect does not know it: {error}") from None
        except TimeoutError:
            self.reachable = False
            raise TimedOut("the Prefect server took too long") from None
        except PostroomError:
            raise
        except Exception as error:
            ours = classify(error)
            self.reachable = not ours.retryable
            raise ours from error
        self.reachable = True
        return answer


@asynccontextmanager
async def ask_prefect() -> AsyncIterator[Asking]:
    """A line to the server of this process's Prefect settings. Tries of calls are counted by the caller."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        async with get_client() as client:
            yield Asking(client)
