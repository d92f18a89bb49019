"""health-check: is anything stuck, slow, failing or away? Incidents are told once, and their end as well."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from html import escape

from prefect import flow, task
from prefect.artifacts import acreate_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from flows import dead_letters
from flows.alarms import raise_alarms
from flows.prefect_signs import late_runs, silent_pools
from postroom.dead_letters.register import Register
from postroom.health.facts import Facts, gather
from postroom.health.judgement import Trouble, health_of, troubles
from postroom.ledger.book import open_book
from postroom.ledger.clock import iso
from postroom.settings import settings

log = logging.getLogger("postroom.flows")


@flow(name="health-check", log_prints=False)
async def health_check() -> State[list[str]]:
    """Look at everything, write it down, and tell of what is wrong."""
    facts = await look_at_prefect(await look_at_the_book())
    await write_down(facts)
    found = await tell(facts)
    if found:
        # Not a failure: it is the check's work to find something, and whoever should know was told.
        said = "; ".join(f"{trouble.severity}: {trouble.title}" for trouble in found)
        return Completed(name="Needs attention", message=said[:2000], data=[trouble.key for trouble in found])
    return Completed(message=f"{len(facts.queues)} queues, {len(facts.working)} in work, all well", data=[])


@task(cache_policy=NO_CACHE)
async def look_at_the_book() -> Facts:
    """Queues, open work, failures, successes, and the sensor's sign of life."""
    book = open_book()
    letters = await asyncio.to_thread(Register(book).listed)
    return await asyncio.to_thread(gather, book, dead_letters=len(letters))


@task(cache_policy=NO_CACHE)
async def look_at_prefect(facts: Facts) -> Facts:
    """The same, with late runs and workers that do not report."""
    try:
        return replace(facts, late_runs=await late_runs(), silent_pools=await silent_pools(settings()))
    except Exception as error:
        log.warning("Prefect could not be asked: %s", error)
        return replace(facts, prefect_answers=False)


@task(cache_policy=NO_CACHE)
async def write_down(facts: Facts) -> None:
    """Tables that are kept from check to check."""
    queues = [
        {
            "queue": name,
            "waiting": count.waiting,
            "in flight": count.in_flight,
            "dead": count.dead,
            "letters since": iso(facts.untouched_since[name]) if name in facts.untouched_since else "",
        }
        for name, count in facts.queues.items()
    ]
    await acreate_table_artifact(queues, key="queues", description="Messages per queue at the last health check.")
    work = [
        {
            "work": escape(each.key),
            "health": health_of(each, facts.now, settings()).value,
            "since": iso(each.begun_at),
            "last sign of life": iso(each.last_sign),
            "attempt": each.attempts,
        }
        for each in facts.working
    ]
    said = f"What is in work. {facts.waiting} more wait; {facts.failures_a_day} failed in the last 24 hours."
    await acreate_table_artifact(work, key="work", description=said)


@task(cache_policy=NO_CACHE)
async def tell(facts: Facts) -> list[Trouble]:
    """Judge, and tell people."""
    found = troubles(facts, settings())
    await raise_alarms(found, lambda key: not key.startswith(dead_letters.SCOPE))
    return found
