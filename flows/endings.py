"""Edits that did not come to their end: whoever asked hears the truth, and unwanted work does not come back.

Main decides what is true: an instruction that is on it was carried out, whatever became of the edit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from blocks.site import Site
from flows import answering
from flows.desk import ask_for_edit, summon_generation
from flows.workplace import Workplace
from postroom.errors import Missing, PostroomError
from postroom.ledger import Book
from postroom.ledger.desk import SiteRow
from postroom.ledger.instructions import Instruction, generation_of

log = logging.getLogger("postroom.flows")


async def answered_for(
    book: Book, desk: SiteRow, edit: str, *, until: int | None = None
) -> tuple[list[Instruction], int]:
    """What an edit that ended has to answer for, and up to where the desk has seen to all that was said then.

    That is what it took on; if it never came to that, all that was said, `until` somebody cancelled it.
    """
    waiting = await asyncio.to_thread(book.instructions.unfinished, desk.project)
    if desk.generation == generation_of(edit) and desk.phase != "asked":
        return [one for one in waiting if one.edit == edit], desk.gathered_seq
    mine = [one for one in waiting if until is None or one.received_at <= until]
    return mine, desk.latest_seq - (len(waiting) - len(mine))


async def leave(book: Book, desk: SiteRow, generation: int, seen_to: int) -> None:
    """Leave the desk to the next edit, if one is wanted."""
    if desk.generation == generation and desk.phase == "asked":  # it never gathered: what it was asked for has ended
        await asyncio.to_thread(book.desk.begin, desk.project, generation, gathered_seq=seen_to, newest="")
    asked = await asyncio.to_thread(book.desk.release, desk.project, generation)
    if asked is not None:
        await summon_generation(book, desk.project, asked.generation, preempted=None)


async def cancelled(
    book: Book, place: Workplace | None, edit: str, mine: Sequence[Instruction], *, committed: bool
) -> str:
    """Tell whoever asked that a person cancelled it, and give the reason; what came too far is left to the next edit.

    Too far is what is on main, and a publication that has begun: the next edit finishes both.
    """
    on_main = await asyncio.to_thread(place.on_main) if place else {}
    begun = [i for i in mine if i.message_id in on_main or (committed and i.kind == "publish")]
    await answering.cancelled(book, edit, [i for i in mine if i not in begun])
    if place:
        await asyncio.to_thread(place.forget_interrupted_work, book, {i.thread_id for i in mine})
    if not begun:
        return "cancelled by operator"
    log.info("%d instruction(s) had passed the commit point; the next edit finishes them", len(begun))
    await asyncio.to_thread(book.instructions.waiting_again, begun, edit)
    await asyncio.to_thread(book.desk.reopen, begun[0].project)
    return "cancelled by operator after the commit point; the next edit finishes it"


async def failed(
    book: Book, place: Workplace | None, edit: str, mine: Sequence[Instruction], error: PostroomError
) -> None:
    """Tell whoever asked that it did not work out; or, of what is on main, that it is made but can't be seen yet."""
    on_main = await asyncio.to_thread(place.on_main) if place else {}
    await answering.failed(book, edit, [i for i in mine if i.message_id not in on_main], error)
    if made := [i for i in mine if i.message_id in on_main]:
        await answering.unseen(book, edit, made, error, on_main[made[-1].message_id])
    if place and not answering.work_is_kept(error):
        await asyncio.to_thread(place.forget_interrupted_work, book, {i.thread_id for i in mine})


async def once_more(book: Book, project: str, edit: str) -> dict[str, Any]:
    """A person wants an ended edit tried once more: what it failed or gave up waits again, for a new edit."""
    said = await asyncio.to_thread(book.instructions.of_project, project)
    wanted = [one for one in said if one.edit == edit and one.status in ("failed", "cancelled")]
    if not wanted:
        return {"instructions": []}
    await asyncio.to_thread(book.desk.reopen, project)  # first: from here on the site owes an edit, whoever dies
    for one in wanted:
        await asyncio.to_thread(book.instructions.reopen, one)
    asked = await ask_for_edit(book, wanted[-1])
    log.info("%d instruction(s) wait again; %s carries them out", len(wanted), asked.edit_key)
    return {"instructions": [one.message_id for one in wanted], "asked": asked.answer, "edit": asked.edit_key}


def workplace_of(site: Site) -> Workplace | None:
    """The site's workplace; None on a machine that does not have its repository."""
    try:
        return Workplace(site)
    except Missing as missing:
        log.warning("%s: %s", site.project, missing)
        return None
