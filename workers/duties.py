"""What the sensor sees to besides messages, each at its own pace. A new duty is one line in the table."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.care import sites_in_order
from postroom.changes.amends import Amends
from postroom.changes.store import open_store
from postroom.errors import classify
from postroom.health.facts import sensor_lives
from postroom.settings import Settings
from workers.intake import BookCalls
from workers.job_steps import see_to_jobs
from workers.patience import Patience
from workers.prefect_events import tell_prefect

if TYPE_CHECKING:
    from workers.asking import Asking
    from workers.sweeper import Sweeper

log = logging.getLogger("postroom.sweeper")


@dataclass(frozen=True)
class Means:
    """What a duty may use."""

    calls: BookCalls
    asking: Asking
    sweeper: Sweeper


@dataclass(frozen=True)
class Duty:
    """Something to be done at the start and then every so often."""

    name: str
    every: Callable[[Settings], float]
    do: Callable[[Means], Awaitable[None]]


async def unpaid_work(means: Means) -> None:
    await means.sweeper.sweep()


async def events_to_the_bus(means: Means) -> None:
    while await means.calls(means.calls.book.events.tell, also=tell_prefect) >= 100:
        pass


async def jobs_that_owe_a_step(means: Means) -> None:
    await see_to_jobs(means.calls, means.asking)


async def sign_of_life(means: Means) -> None:
    await means.calls(sensor_lives, means.calls.book)


async def sites(means: Means) -> None:
    await sites_in_order(means.calls.book)


async def forgotten_customers(means: Means) -> None:
    await means.calls(_amends.make, means.calls.book, open_store())


_amends = Amends()
DUTIES: list[Duty] = [
    Duty("unpaid work", lambda s: s.sweep_seconds, unpaid_work),
    Duty("sites", lambda s: s.sweep_seconds, sites),
    Duty("events to the bus", lambda s: min(1.0, s.sweep_seconds), events_to_the_bus),
    Duty("jobs", lambda s: min(2.0, s.sweep_seconds), jobs_that_owe_a_step),
    Duty("changes", lambda s: max(30.0, s.sweep_seconds), forgotten_customers),
    Duty("sign of life", lambda s: min(15.0, s.sweep_seconds), sign_of_life),
]


async def attend(duty: Duty, means: Means, done: dict[str, float]) -> None:
    """Do it forever; `done` remembers when it last went well."""
    every, patience = duty.every(means.calls.book.settings), Patience(first=1.0, longest=30.0)
    while True:
        try:
            await duty.do(means)
        except Exception as error:
            ours = classify(error)
            log.log(logging.WARNING if ours.retryable else logging.ERROR, "%s: %s", duty.name, ours)
            await asyncio.sleep(min(patience.next(), max(every, 1.0)))
            continue
        patience.again()
        done[duty.name] = time.time()
        await asyncio.sleep(every * random.uniform(0.9, 1.1))  # noqa: S311 - several sensors, not in step
