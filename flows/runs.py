"""Runs asked for by flows: one per key, whoever asks and however often."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import prefect.runtime.flow_run
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Cancelling

from postroom.errors import Missing, classify
from postroom.ledger import Book, Event, Work

log = logging.getLogger("postroom.flows")
_UNSAFE = re.compile(r"[^\w .,:;!?@+/()'&#%=-]+")


async def ask_for(book: Book, key: str, job: str, work: Work, *, event: Event | None = None) -> FlowRun:
    """The run of a key, made now or long ago; the book knows of it first, so the sweeper can ask again."""
    row, _ = await asyncio.to_thread(book.leases.enter, key, job, work, event=event)
    async with get_client() as client:
        try:
            deployment = await client.read_deployment_by_name(f"{work.deployment}/{work.deployment}")
        except ObjectNotFound:
            raise Missing(f"Prefect has no deployment {work.deployment}; to mend: postroom deploy") from None
        run = await client.create_flow_run_from_deployment(
            deployment.id, parameters=dict(work.parameters), tags=list(work.tags), idempotency_key=key
        )
    if row.run_id != str(run.id):
        await asyncio.to_thread(book.leases.note_run, key, str(run.id))
    return run


async def cancel(run_id: str) -> None:
    """Ask a run to stop; one that has not begun is ended at once."""
    async with get_client() as client:
        try:
            run = await client.read_flow_run(UUID(run_id))
        except ObjectNotFound:
            return
        if run.state is None or run.state.is_final() or run.state.type is StateType.CANCELLING:
            return
        begun = run.state.type in (StateType.RUNNING, StateType.PENDING)
        await client.set_flow_run_state(run.id, Cancelling() if begun else Cancelled(), force=not begun)


async def name_preempted(run_id: str, by: str, subject: str, *, patience: float = 20, at_once: bool = False) -> bool:
    """Show a run that had to give way as such, once it has ended; `at_once` if its process gives no sign of life.

    False when it has yet to end.
    """
    deadline = time.monotonic() + patience
    async with get_client() as client:
        while True:
            try:
                run = await client.read_flow_run(UUID(run_id))
            except ObjectNotFound:
                return True
            if at_once or (run.state is not None and run.state.is_final()):
                break
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.5)
        if run.state is None or (run.state.type is not StateType.COMPLETED and run.state.name != "Preempted"):
            said = f"by {by} ({readable(subject)})"
            await client.set_flow_run_state(run.id, Cancelled(name="Preempted", message=said), force=True)
    return True


async def introduce(name: str, tags: Iterable[str] = ()) -> None:
    """Give the present run a name that people know it by, and more tags, if Prefect can be told."""
    run_id = prefect.runtime.flow_run.id
    if not run_id:
        return
    known = list(prefect.runtime.flow_run.tags or [])
    changes: dict[str, Any] = {"name": readable(name, 120)}
    if more := [tag for tag in tags if tag not in known]:
        changes["tags"] = known + more
    try:
        async with get_client() as client:
            await client.update_flow_run(UUID(str(run_id)), **changes)
    except Exception as error:
        log.warning("the run keeps the name that it has: %s", classify(error))


def readable(text: str, limit: int = 80) -> str:
    """Words of a stranger, fit for a name in the UI: one line, nothing that is markup."""
    return " ".join(_UNSAFE.sub(" ", text).split())[:limit] or "(no subject)"
