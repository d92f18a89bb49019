"""Jobs and Prefect: the steps that are asked for, and the runs of a job's tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound

from flows.runs import ask_for
from postroom.errors import Missing
from postroom.ledger import Book, Event, Row, Work
from postroom.tasks.job_book import Job, Jobs, at_once
from postroom.tasks.job_plan import request_id

log = logging.getLogger("postroom.flows")
DEPLOYMENT = "agent-job"


def step_work(job_id: str, key: str) -> Work:
    """What is run for a step of a job."""
    return Work(DEPLOYMENT, {"job_id": job_id}, ("job:task", f"key:{key}", f"job:{job_id}"))


def task_work(job: Job, task_id: str) -> tuple[str, Work, Event]:
    """The key, the run and the first event of a job's task. Its parents are named by their request ids."""
    step, key = job.plan[task_id], job.key_of(task_id)
    own = request_id(job.id, task_id)
    body: dict[str, Any] = {**step.task, "requestId": own, "jobId": job.id, "dependsOn": list(step.depends_on)}
    if step.depends_on:
        body["parents"] = {each: request_id(job.id, each) for each in step.depends_on}
    work = Work("agent-task", {"request_id": own, "task": body}, ("job:task", f"key:{key}", f"job:{job.id}"))
    about = {"name": str(step.task.get("name", task_id))[:200], "job": job.id, "task": task_id, "key": key}
    return key, work, Event("Task Pending", f"TASK#{own}", "task", about)


async def begin_task(book: Book, job: Job, task_id: str) -> FlowRun:
    """The run of a job's task, asked for now or before."""
    key, work, pending = task_work(job, task_id)
    return await ask_for(book, key, "task", work, event=pending)


async def ask_for_step(book: Book, job_id: str) -> FlowRun | None:
    """The run that moves the job on; None when there is nothing to be done. The sensor asks too: this is sooner."""
    jobs = Jobs(book)
    job = await asyncio.to_thread(jobs.read, job_id)
    seen = await asyncio.to_thread(jobs.standing, job)
    if not job.owes(seen, at_once(book.settings)):
        return None
    work = step_work(job_id, key := job.step_key(seen))
    async with get_client() as client:
        try:
            deployment = await client.read_deployment_by_name(f"{DEPLOYMENT}/{DEPLOYMENT}")
        except ObjectNotFound:
            raise Missing(f"Prefect has no deployment {DEPLOYMENT}; to mend: postroom deploy") from None
        return await client.create_flow_run_from_deployment(
            deployment.id, parameters=dict(work.parameters), tags=list(work.tags), idempotency_key=key
        )


async def hear_of_task(book: Book, task: Mapping[str, Any], row: Row) -> None:
    """A task of a job has ended: the job moves on at once, not only when the sensor looks next."""
    job_id = task.get("jobId")
    if isinstance(job_id, str) and await asyncio.to_thread(Jobs(book).find, job_id) is not None:
        await ask_for_step(book, job_id)
