"""Rounds in which workers and the floor take turns."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId, FlowRunFilter
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectAlreadyExists
from prefect.flow_engine import run_flow
from prefect.states import Pending
from prefect.workers.base import BaseWorker

from benchmarks.table import percentile
from benchmarks.tiny import tiny
from postroom.settings import settings

PATIENCE_SECONDS = 240.0
BUDGET_SECONDS = 240.0  # for all rounds together


@dataclass
class Peer:
    """One way to carry out runs, and what was measured of it."""

    name: str
    kind: str  # of worker; none for the floor
    singles: int  # latency samples per round
    burst: int  # runs in a row, per round
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    job_variables: dict[str, str] = field(default_factory=dict)
    at_once: int = field(default_factory=lambda: settings().light_limit)
    latencies: list[float] = field(default_factory=list)
    per_minute: list[float] = field(default_factory=list)
    deployment: uuid.UUID = field(default_factory=uuid.uuid4)

    def __post_init__(self) -> None:
        self.pool = f"{self.kind or 'none'}-{uuid.uuid4().hex[:4]}"

    @property
    def p50(self) -> float:
        return percentile(self.latencies, 0.5)

    @property
    def rate(self) -> float:
        return percentile(self.per_minute, 0.5)


def take_turns(crew: list[Peer], rounds: int, book: Path) -> list[Peer]:
    """The peers with what was measured of each."""
    asyncio.run(_all_rounds(crew, rounds, book))
    return crew


async def _all_rounds(crew: list[Peer], rounds: int, book: Path) -> None:
    async with get_client() as client:
        for peer in crew:
            await _deploy(client, peer)
        for peer in crew:
            await _ready(client, peer)
            await _single(client, peer, book)  # the first run loads the flow
        began = time.monotonic()
        for number in range(rounds):
            if number and (time.monotonic() - began) * (number + 1) / number > BUDGET_SECONDS:
                break
            for peer in crew:
                peer.latencies += [await _single(client, peer, book) for _ in range(peer.singles)]
                peer.per_minute.append(await _burst(client, peer, book))
                last = f"{peer.latencies[-1]:.2f} s, {peer.per_minute[-1]:.0f}/min"
                print(f"  round {number + 1} of {rounds}: {peer.name}: {last}", file=sys.stderr, flush=True)


async def _deploy(client: PrefectClient, peer: Peer) -> None:
    if kind := BaseWorker.get_worker_class_from_type(peer.kind) if peer.kind else None:
        template = kind.get_default_base_job_template()
        try:
            await client.create_work_pool(WorkPoolCreate(name=peer.pool, type=peer.kind, base_job_template=template))
        except ObjectAlreadyExists:
            pass
    flow = await client.create_flow(tiny)
    peer.deployment = await client.create_deployment(
        flow,
        f"tiny-{uuid.uuid4().hex[:6]}",
        work_pool_name=peer.pool if peer.kind else None,
        entrypoint="benchmarks/tiny.py:tiny",
        path=str(Path(__file__).parents[1]),
        job_variables=peer.job_variables,
    )


async def _ready(client: PrefectClient, peer: Peer) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while peer.kind and not await client.read_workers_for_work_pool(peer.pool):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{peer.name}: its worker did not report")
        await asyncio.sleep(0.1)


async def _create_and_run(client: PrefectClient, peer: Peer, book: Path, name: str) -> None:
    wanted = {"book": str(book), "name": name}
    if peer.kind:
        await client.create_flow_run_from_deployment(peer.deployment, parameters=wanted)
        return
    run = await client.create_flow_run_from_deployment(peer.deployment, parameters=wanted, state=Pending())
    await run_flow(tiny, flow_run=run, parameters=run.parameters, return_type="state")  # type: ignore[misc]


async def _single(client: PrefectClient, peer: Peer, book: Path) -> float:
    """Seconds from asking for a run to its body."""
    name, asked = uuid.uuid4().hex, time.time()
    await _create_and_run(client, peer, book, name)
    began: float | None = None
    while (began := _began(book).get(name)) is None:
        if time.time() - asked > PATIENCE_SECONDS:
            raise TimeoutError(f"{peer.name}: no body after {PATIENCE_SECONDS:.0f} s")
        await asyncio.sleep(0.02)
    await _all_over(client, peer, 0, asked)
    return began - asked


def _began(book: Path) -> dict[str, float]:
    if not book.exists():
        return {}
    return {name: float(at) for name, at in (line.split() for line in book.read_text().splitlines())}


async def _burst(client: PrefectClient, peer: Peer, book: Path) -> float:
    """Runs per minute, from the first create to the last terminal state."""
    book.write_text("")
    at_once = asyncio.Semaphore(peer.at_once)

    async def one() -> None:
        async with at_once:
            await _create_and_run(client, peer, book, uuid.uuid4().hex)

    began = time.time()
    await asyncio.gather(*(one() for _ in range(peer.burst)))
    await _all_over(client, peer, 0, began)
    seconds = time.time() - began
    if len(_began(book)) != peer.burst:
        raise RuntimeError(f"{peer.name}: {len(_began(book))} bodies for {peer.burst} runs")
    return peer.burst / seconds * 60


async def _all_over(client: PrefectClient, peer: Peer, left: int, since: float) -> None:
    """Returns when no run of the peer is unfinished; any that did not complete is an error."""
    mine = DeploymentFilter(id=DeploymentFilterId(any_=[peer.deployment]))
    over = [StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED]

    async def count(**state: list[StateType]) -> int:
        wanted = FlowRunFilter.model_validate({"state": {"type": state}})
        return await client.count_flow_runs(deployment_filter=mine, flow_run_filter=wanted)

    while await count(not_any_=over) > left:
        if time.time() - since > PATIENCE_SECONDS:
            raise TimeoutError(f"{peer.name}: runs unfinished after {PATIENCE_SECONDS:.0f} s")
        await asyncio.sleep(0.05)
    if bad := await count(any_=over[1:]):
        raise RuntimeError(f"{peer.name}: {bad} runs did not complete")
