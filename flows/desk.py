"""Asking for an edit of a site: the book answers start, absorb or preempt; Prefect is made to agree.

Every step may be repeated: whoever dies half-way, the next one to come (the mail's next attempt,
the site's next edit, the sweeper's duty) finishes it from what the book says.
"""

from __future__ import annotations

import asyncio
import logging

from flows import runs
from postroom.ledger import Book, Work
from postroom.ledger.desk import Answer, Asked, SiteRow
from postroom.ledger.instructions import Instruction, alike

log = logging.getLogger("postroom.flows")


def edit_work(project: str, generation: int) -> Work:
    """What is run for an edit of a site."""
    return Work(
        "edit-site",
        {"project": project, "generation": generation},
        ("job:mail", f"key:edit:{project}:{generation}", f"site:{project}"),
    )


async def ask_for_edit(book: Book, instruction: Instruction) -> Asked:
    """See to it that an edit will gather this instruction: a new one, or the one that is about to begin."""
    waiting = await asyncio.to_thread(book.instructions.unfinished, instruction.project)
    asked = await asyncio.to_thread(
        book.desk.ask,
        instruction.project,
        order=instruction.order,
        by=instruction.message_id,
        subject=instruction.subject,
        oldest_waiting_at=waiting[0].received_at if waiting else 0,
        is_next=instruction.message_id in [one.message_id for one in alike(waiting)],
    )
    log.info("%s: %s, by %s", instruction.project, asked.answer, asked.edit_key)
    if asked.answer is Answer.ABSORB:
        await summon(book, instruction.project)
    else:
        await summon_generation(book, instruction.project, asked.generation, preempted=asked.preempted)
    return asked


async def summon(book: Book, project: str) -> None:
    """Make Prefect agree with the desk: the edit that was asked for has a run, the one that must go is told."""
    row = await asyncio.to_thread(book.desk.read, project)
    if row.phase != "asked":
        return
    await summon_generation(book, project, row.generation, preempted=preempted_by(row))


def preempted_by(row: SiteRow) -> str | None:
    """The edit that has to make way for the one that was asked for."""
    if row.preempting.get("generation") == row.generation - 1:
        return f"edit:{row.project}:{row.generation - 1}"
    return None


async def summon_generation(book: Book, project: str, generation: int, *, preempted: str | None) -> None:
    # in this order: that its run is there before the older one is cancelled tells who cancelled it (who_cancelled)
    await runs.ask_for(book, f"edit:{project}:{generation}", "edit", edit_work(project, generation))
    if preempted is not None:
        await let_go(book, preempted)


async def let_go(book: Book, edit_key: str) -> None:
    """Tell a running edit to stop."""
    row = await asyncio.to_thread(book.leases.find, edit_key)
    if row is not None and not row.terminal and row.run_id:
        await runs.cancel(row.run_id)
