"""agent-job: one step of a job. What can begin is asked for, what ended is written down, the picture is drawn anew.

A step may be repeated, or run twice at once: every task has one key, and the book takes each word once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Any

from prefect import flow, task
from prefect.artifacts import acreate_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from flows import runs, show
from flows.jobs import begin_task
from postroom.ledger.book import open_book
from postroom.logs import correlate
from postroom.tasks.job_book import Job, Jobs, at_once
from postroom.tasks.job_picture import mermaid, plain
from postroom.tasks.job_state import Standing, Stands


@flow(name="agent-job", log_prints=False)
async def agent_job(job_id: str) -> State[dict[str, Any]]:
    """Move a job on by as much as can be done now."""
    with correlate(f"job-{job_id}"):
        job, seen = await look_at_job(job_id)
        await runs.introduce(f"{job.plan.name}: {_said(seen)}", [f"job:{job_id}"])
        begun = await begin_what_can_begin(job, seen)
        told = await tell_of_failures(job, seen)
        ended = await end_if_over(job, seen)
        job, seen = await look_at_job(job_id)
        await draw(job, seen)
        outcome = {"job": job_id, "begun": begun, "failure_told": told, "ended": ended, "tasks": dict(seen.tasks)}
        return Completed(message=_said(seen), data=outcome)


@task(cache_policy=NO_CACHE)
async def look_at_job(job_id: str) -> tuple[Job, Standing]:
    """The job and where its tasks stand."""
    jobs = Jobs(open_book())
    job = await asyncio.to_thread(jobs.read, job_id)
    return job, await asyncio.to_thread(jobs.standing, job)


@task(cache_policy=NO_CACHE)
async def begin_what_can_begin(job: Job, seen: Standing) -> list[str]:
    """Ask for a run of each task whose parents are completed."""
    book = open_book()
    if job.state.terminal:
        return []
    begun = job.next_tasks(seen, at_once(book.settings))
    for each in begun:
        await begin_task(book, job, each)
    return begun


@task(cache_policy=NO_CACHE)
async def tell_of_failures(job: Job, seen: Standing) -> bool:
    """Say once that something failed; the other branches go on."""
    return await asyncio.to_thread(Jobs(open_book()).tell_failure, job, seen)


@task(cache_policy=NO_CACHE)
async def end_if_over(job: Job, seen: Standing) -> bool:
    """Write down the end when nothing runs and nothing can begin."""
    return await asyncio.to_thread(Jobs(open_book()).finish, job, seen)


@task(cache_policy=NO_CACHE)
async def draw(job: Job, seen: Standing) -> None:
    """The graph of the job, with the state of each task, kept under one key from step to step."""
    told_apart = hashlib.sha256(job.id.encode()).hexdigest()[:8]
    lines = [
        f"## {plain(job.plan.name, 120)}",
        f"Job `{job.id}` is {'running' if not job.state.terminal else job.state.value}: {_said(seen)}.",
        f"```mermaid\n{mermaid(seen)}\n```",
        *_table(job, seen),
    ]
    await acreate_markdown_artifact(key=show.slug(f"job-{job.id[:100]}-{told_apart}"), markdown="\n\n".join(lines))


def _table(job: Job, seen: Standing) -> Sequence[str]:
    rows = ["| task | stands | waits for | why |", "|---|---|---|---|"]
    reasons = seen.reasons()
    for step in job.plan.steps:
        why = plain(escape(reasons.get(step.id, "")), 200)
        rows.append(f"| `{step.id}` | {seen.tasks[step.id].value} | {', '.join(step.depends_on)} | {why} |")
    return ["\n".join(rows)]


def _said(seen: Standing) -> str:
    order = [stands.value for stands in Stands]
    counts = seen.counts()
    return ", ".join(f"{counts[name]} {name}" for name in order if name in counts)
