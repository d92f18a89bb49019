"""dead-letters: what could not be done is written down once, told of, and listed until a person decides."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from html import escape

from prefect import flow, task
from prefect.artifacts import acreate_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from flows.alarms import raise_alarms
from postroom.dead_letters.letter import DeadLetter
from postroom.dead_letters.register import Register
from postroom.health.judgement import Trouble
from postroom.ledger.book import open_book

SHOWN = 5  # letters named in an alert
SCOPE = "dead-letters:"


@flow(name="dead-letters", log_prints=False)
async def dead_letters() -> State[list[str]]:
    """Look through every dead-letter queue."""
    new = await write_down_new_letters()
    listed = await list_letters()
    await show(listed)
    await tell(listed)
    said = f"{len(new)} new, {len(listed)} wait for a decision"
    return Completed(name="Needs attention" if listed else None, message=said, data=[letter.id for letter in new])


@task(cache_policy=NO_CACHE)
async def write_down_new_letters() -> list[DeadLetter]:
    """Each new letter becomes an event that ends its work, and a line of the register."""
    return await asyncio.to_thread(Register(open_book()).gather)


@task(cache_policy=NO_CACHE)
async def list_letters() -> list[DeadLetter]:
    """Letters that were neither redriven nor dismissed."""
    return await asyncio.to_thread(Register(open_book()).listed)


@task(cache_policy=NO_CACHE)
async def show(listed: Sequence[DeadLetter]) -> None:
    """The list, for the Prefect UI."""
    columns = ("id", "queue", "entity", "reason", "category", "receives", "at")
    table = [{name: escape(str(letter.as_json()[name]))[:500] for name in columns} for letter in listed[:500]]
    await acreate_table_artifact(
        table, key="dead-letters", description="To decide: postroom dead-letters redrive|dismiss ID"
    )


@task(cache_policy=NO_CACHE)
async def tell(listed: Sequence[DeadLetter]) -> None:
    """One incident for each queue, kept up to date; over when nothing of it is listed any more."""
    await raise_alarms(alarms(listed), lambda key: key.startswith(SCOPE))


def alarms(listed: Sequence[DeadLetter]) -> list[Trouble]:
    """What people are told of the listed letters."""
    by_queue: dict[str, list[DeadLetter]] = defaultdict(list)
    for letter in listed:
        by_queue[letter.queue].append(letter)
    found = []
    for queue, letters in by_queue.items():
        lines = [f"{each.entity}: {each.reason[:300]} (received {each.receives} times)" for each in letters[-SHOWN:]]
        more = [f"… and {len(letters) - SHOWN} more"] if len(letters) > SHOWN else []
        title = f"{len(letters)} dead letter{'s' * (len(letters) > 1)} of {queue}"
        found.append(Trouble(f"{SCOPE}{queue}", "warning", title, "\n".join([*reversed(lines), *more])))
    return found
