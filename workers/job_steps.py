"""Jobs that owe a step get one, whoever forgot to ask: after a restart of everything, jobs go on from here.

its step in Prefect                     what is done
──────────────────────────────────────  ─────────────────────────────────────────
none                                    asked for
Scheduled, Paused                       left alone
Pending, Running: not for long          left alone
ended, or Pending, Running: for long    run again, at growing distances
so often in vain                        the job is given up
Cancelled                               left alone: a person wants it so, until `postroom job resume`
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from prefect.client.schemas.objects import FlowRun, StateType

from flows.jobs import step_work
from postroom.errors import Missing, PostroomError
from postroom.settings import Settings
from postroom.tasks.job_book import Jobs, at_once
from workers.asking import Asking
from workers.intake import BookCalls

log = logging.getLogger("postroom.sweeper")
MOST_STEPS_IN_VAIN = 20


async def see_to_jobs(calls: BookCalls, asking: Asking) -> None:
    """Once through all open jobs. Trouble with one does not hold up the others."""
    jobs = Jobs(calls.book)
    for job_id in await calls(lambda: list(jobs.open())):
        try:
            await _see_to(jobs, job_id, calls, asking)
        except Missing as error:
            log.warning("job %s waits: %s", job_id, error)
        except PostroomError as error:
            if error.retryable and not await asking.answers():
                raise  # nobody is there: the others would fare no better
            log.error("job %s could not be moved: %s", job_id, error)


async def _see_to(jobs: Jobs, job_id: str, calls: BookCalls, asking: Asking) -> None:
    settings = calls.book.settings
    job = await calls(jobs.read, job_id)  # the index may lag; the row decides
    seen = await calls(jobs.standing, job)
    if not job.owes(seen, at_once(settings)):
        return
    key = job.step_key(seen)
    run = await asking.ask(key, step_work(job_id, key))
    if not in_vain(run, settings, datetime.now(UTC)):
        return
    if run.run_count >= MOST_STEPS_IN_VAIN:
        said = run.state.message if run.state is not None else None
        await calls(jobs.give_up, job, f"its step failed {run.run_count} times: {said or 'without a word'}"[:1000])
        return
    await asking.reschedule(str(run.id), "the job still owes this step")
    log.info("job %s: its step is run again", job_id)


def in_vain(run: FlowRun, s: Settings, now: datetime) -> bool:
    """Whether a step was made and its work is still to be done."""
    if run.state is None:
        return False
    stood = now - run.state.timestamp
    rest = timedelta(seconds=max(1.0, min(s.sweep_seconds, 10.0)) * 2 ** min(run.run_count, 5))
    match run.state.type:
        case StateType.SCHEDULED | StateType.PAUSED | StateType.CANCELLING | StateType.CANCELLED:
            return False
        case StateType.PENDING | StateType.RUNNING:
            return stood > timedelta(seconds=s.pending_seconds)
    return stood > rest
