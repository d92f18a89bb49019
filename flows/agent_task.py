"""A queued task, done once by an agent, with a record.

    is there a result already? → load and check → wait for a place → agent, in a child process of its own
      → check its answer → upload log, trace and result → done

The result is stored before the book says that the task is done: an attempt that dies in between is
followed by one that finds the result and does not pay for the work again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prefect import flow
from prefect import task as step
from prefect.cache_policies import NO_CACHE
from prefect.concurrency.asyncio import (
    AcquireConcurrencySlotTimeoutError,
    ConcurrencySlotAcquisitionError,
    concurrency,
)
from prefect.states import Completed, State

from flows import job_news, runs, show
from flows.once import PutOff, Subject, once, own_key
from postroom.agent.job import Job
from postroom.agent.tries import Tried, run_tries
from postroom.errors import BadInput, Misconfigured, Missing, PostroomError, RateLimited, classify
from postroom.ledger import Holding, Work
from postroom.ledger.book import open_book
from postroom.settings import settings
from postroom.tasks import record
from postroom.tasks.definitions import Definitions
from postroom.tasks.results import Document, Results
from postroom.tasks.standing import newest
from postroom.tasks.task import Task, job_of, read_task
from postroom.tasks.tray import Tray

log = logging.getLogger("postroom.flows")
LIMIT = "agent-tasks"
SLOT_SECONDS = 60  # the shortest lease that Prefect gives: the place of a killed run is free again after that
PLACE_SECONDS = 60.0  # waited for a place; longer would hold a lease and a process for nothing
COME_BACK_SECONDS = 30.0  # then the task is put off


@flow(name="agent-task", flow_run_name="task {request_id}", retries=0)
async def agent_task(request_id: str, task: dict[str, Any]) -> dict[str, Any] | State[Any]:
    """Carry out a task that came in through the queue."""
    key = own_key(f"task:{request_id}")
    errand = Errand(request_id, key, task)
    try:
        return await once(errand.subject, errand.carry_out, beats_are_events=True)
    except PutOff as later:
        return Completed(name="Put off", message=str(later))
    finally:
        await job_news.after_task(open_book(), task, key)


class Errand:
    """One attempt at one task."""

    def __init__(self, request_id: str, key: str, told: Mapping[str, Any]) -> None:
        self.request_id, self.key, self.told = request_id, key, told
        self.results = Results(request_id)

    @property
    def subject(self) -> Subject:
        """How the book and its events speak of it; the words of the sender are not checked yet."""
        about = {name: self.told[name] for name in ("name", "jobId") if isinstance(self.told.get(name), str)}
        return Subject(
            self.key,
            "task",
            "Task",
            f"TASK#{self.request_id}",
            Work(
                "agent-task",
                {"request_id": self.request_id, "task": dict(self.told)},
                ("job:task", f"key:{self.key}"),
            ),
            {name: value[:200] for name, value in about.items()},
        )

    async def carry_out(self, holding: Holding) -> dict[str, Any]:
        """The outcome: where the result lies, and what it cost."""
        tray = Tray(self.key, holding.fence)
        kept = await asyncio.to_thread(self.results.find, self.key)
        if kept is not None:
            log.info("an earlier attempt has left its result; the work is not done again")
            tray.clear()
            return record.outcome_of(kept, self.results.place)
        task = await load_task(self.told, self.request_id)
        parents = await parents_of(task)
        await runs.introduce(f"{task.title} {self.request_id}")
        with tray:
            job = self.job(task, parents, tray)
            async with a_place():
                holding.check()
                tried = await ask_agent(job, tray)
            holding.check()
            stored = await self.keep(task, tried, tray)
        return record.outcome_of(stored, self.results.place)

    def job(self, task: Task, parents: Mapping[str, Any], tray: Tray) -> Job:
        if task.tools:
            tray.put_input(task.input)
        return job_of(task, self.request_id, parents=parents, workspace=tray.workspace if task.tools else None)

    async def keep(self, task: Task, tried: Tried, tray: Tray) -> Document:
        """The stored result; raises what an unfinished one stands for, when its record is safe."""
        result = record.checked(task, tried.result)
        try:
            files = await asyncio.to_thread(record.write_down, self.results, task, self.request_id, tried, tray)
        except Exception as error:
            if result.ok:
                raise
            log.warning("the record of this attempt could not be kept: %s", error)  # what ended it matters more
            files = []
        document = record.document(task, self.request_id, self.key, tried, files)
        if result.ok:
            document = await asyncio.to_thread(self.results.keep, document)
        try:
            await show.task(self.request_id, result)
        except Exception as error:
            log.warning("what the agent did can't be shown in Prefect: %s", classify(error))
        if not result.ok:
            raise await asyncio.to_thread(record.failure, self.results, document, result)
        return document


@step(name="load the task", cache_policy=NO_CACHE, retries=0)
async def load_task(told: Mapping[str, Any], request_id: str) -> Task:
    """The task, checked, with everything that its definition adds."""
    task = read_task(told, request_id=request_id)
    return await asyncio.to_thread(lambda: Definitions().applied(task))


async def parents_of(task: Task) -> dict[str, Any]:
    """What the tasks that it builds on have answered."""
    found = {}
    for name, request_id in task.waits_for.items():
        result = await asyncio.to_thread(Results(request_id).latest)
        if result is None:
            raise await asyncio.to_thread(_without, name, request_id)
        found[name] = result["text"] if result["output"] is None else result["output"]
    return found


def _without(name: str, request_id: str) -> PostroomError:
    """What a parent without a result means: one that is still to be done is waited for, which costs no attempt."""
    row = newest(open_book(), request_id)
    if row is not None and not row.terminal:
        return RateLimited(
            f"the task builds on {name!r}, and {request_id} is {row.state}", retry_after=COME_BACK_SECONDS
        )
    ended = f": it is {row.state}" if row is not None else ""
    return Missing(f"the task builds on {name!r}, but there is no result of the task {request_id}{ended}")


@asynccontextmanager
async def a_place() -> AsyncIterator[None]:
    """One of the places for agents, over all machines; how many there are can be changed in the Prefect UI.

    When none gets free in time the task is put off: that is no attempt, and the time is not that of the work.
    """
    slot = concurrency(
        LIMIT,
        timeout_seconds=PLACE_SECONDS,
        lease_duration=SLOT_SECONDS,
        strict=True,
        raise_on_lease_renewal_failure=False,
    )
    try:
        await slot.__aenter__()
    except AcquireConcurrencySlotTimeoutError:
        raise RateLimited(f"all places of {LIMIT} are taken", retry_after=COME_BACK_SECONDS) from None
    except ConcurrencySlotAcquisitionError as error:
        found = classify(error.__cause__) if error.__cause__ is not None else None  # without one the limit is missing
        if found is None or isinstance(found, BadInput):
            said = f"Prefect gives no place under the concurrency limit {LIMIT} ({error}); to mend: postroom deploy"
            raise Misconfigured(said) from None
        raise found from error
    try:
        yield
    finally:
        try:
            await slot.__aexit__(None, None, None)
        except Exception as error:
            log.warning("the place could not be given back; it is free again after %d s: %s", SLOT_SECONDS, error)


@step(name="ask the agent", cache_policy=NO_CACHE, retries=0)
async def ask_agent(job: Job, tray: Tray) -> Tried:
    """The agent's answer, tried again where that can help; its lines are logged as they come."""

    def heard(line: str) -> None:
        tray.say(line)
        log.info("%s", line)

    try:
        wait = settings().task_wait_seconds
        return await run_tries(job, on_line=heard, longest_wait=wait, anew=tray.lay_anew)
    except PostroomError as error:
        tray.say(f"[{job.correlation}] {error}")
        raise
