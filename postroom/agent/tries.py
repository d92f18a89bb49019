"""An agent's job, tried again where that can help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from postroom.agent.job import Job, OnLine, OnProgress, Result
from postroom.agent.run import Driver, run
from postroom.agent.trace import Usage
from postroom.errors import LimitReached
from postroom.settings import settings

_FIRST, _LONGEST = 2.0, 60.0  # seconds between tries
_MOST_WAITS = 5  # an endpoint that always names another reset is not waited for for ever


@dataclass(frozen=True)
class Tried:
    """The last result, with the tokens and the cost of all tries, and how it was come by."""

    result: Result
    attempts: int
    waits: int = 0  # pauses the endpoint asked for; they are no attempts


async def run_tries(
    job: Job,
    *,
    on_line: OnLine | None = None,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
    driver: Driver | None = None,
    longest_wait: float = 300,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    anew: Callable[[], None] = lambda: None,
) -> Tried:
    """The first result that is done or that another try can't better.

        failed, retryable        → again after 2, 4, 8 … s (with jitter), POSTROOM_CALL_TRIES times in all
        rate limit with a reset  → again at the reset, not counted; further away than `longest_wait`: the caller's
        anything else            → returned at once

    A run that was stuck or out of time is not repeated here: its time is spent. The budget is that of all tries
    together. `anew` puts the workspace in order before another.
    """
    attempts = waits = 0
    spent, used = 0.0, Usage()
    while True:
        attempts += 1
        left = None if job.max_usd is None else job.max_usd - spent
        result = await run(
            replace(job, max_usd=left), on_line=on_line, on_progress=on_progress, stop=stop, driver=driver
        )
        result.cost_usd = spent = spent + result.cost_usd
        result.usage = used = used.plus(result.usage)
        if not result.retryable or result.outcome != "failed" or (stop is not None and stop.is_set()):
            return Tried(result, attempts, waits)
        if job.max_usd is not None and spent >= job.max_usd:
            said = f"nothing is left of its ${job.max_usd:g} for another try; the last one failed: {result.error}"
            result.outcome, result.error = "budget", LimitReached(said, limit="budget")
            return Tried(result, attempts, waits)
        if result.reset_at is not None:
            seconds = max(0.0, (result.reset_at - datetime.now(UTC)).total_seconds()) + random.uniform(0, 1)  # noqa: S311
            if seconds > longest_wait or waits >= _MOST_WAITS:
                return Tried(result, attempts, waits)
            attempts, waits = attempts - 1, waits + 1
        elif attempts >= settings().call_tries:
            return Tried(result, attempts, waits)
        else:
            seconds = min(_LONGEST, _FIRST * 2 ** (attempts - 1)) * random.uniform(0.5, 1)  # noqa: S311
        if on_line is not None:
            on_line(f"[{job.correlation}] {result.error}; again in {seconds:.1f} s")
        await pause(seconds)
        await asyncio.to_thread(anew)
