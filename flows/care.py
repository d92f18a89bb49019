"""Sites kept in order: what the book owes is asked for, what ended without its last steps gets them.

    the desk says          the edit's row says        what is done
    ─────────────────────  ─────────────────────────  ──────────────────────────────────────────────
    idle, something waits  –                          an edit is asked for (unless the site is paused)
    asked                  missing, or open           its run is made sure of, its predecessor told to go
    asked or working       failed                     whoever asked is told, the desk is left
    asked or working       cancelled by a person      whoever had asked by then is told, the desk is left

The sensor does this every so often. Everything here may be repeated, and done by two at once.
"""

from __future__ import annotations

import asyncio
import logging

from blocks.site import Site
from blocks.sites import all_sites
from flows import endings, runs, show
from flows.desk import ask_for_edit, summon
from flows.who_cancelled import cancelled_by_a_person
from postroom.errors import PostroomError, classify
from postroom.ledger import Book, Row, State
from postroom.ledger.desk import SiteRow

log = logging.getLogger("postroom.sites")
SILENT_MS = 60_000  # a run whose work ended so long ago, and still shows no end, never will


class EditFailed(PostroomError):
    """An edit used up its attempts; its own error is not known here."""


async def sites_in_order(book: Book) -> None:
    """Look after every site; trouble with one does not hold up the others."""
    for site in await all_sites():
        try:
            await in_order(book, site)
        except Exception as error:
            ours = classify(error)
            log.log(logging.WARNING if ours.retryable else logging.ERROR, "site %s: %s", site.project, ours)


async def in_order(book: Book, site: Site) -> None:
    """See that one site is owed nothing that nobody works on."""
    desk = await asyncio.to_thread(book.desk.read, site.project)
    await _show_preempted(book, desk)
    if desk.phase == "idle":
        if not site.paused:  # what waits decides, not the count of what was said: a count may be wrong
            await _ask_on_behalf(book, site.project)
        return
    row = await asyncio.to_thread(book.leases.find, desk.edit_key)
    if row is not None and row.terminal:
        await _after_the_end(book, site, desk, row)
    elif desk.phase == "asked":
        await summon(book, site.project)


async def _show_preempted(book: Book, desk: SiteRow) -> None:
    """Edits that made way are named so; the edit that came after them could not wait for their end."""
    for number, mark in desk.unnamed.items():
        row = await asyncio.to_thread(book.leases.find, f"edit:{desk.project}:{number}")
        if row is not None and not row.terminal:
            continue
        if row is not None and row.run_id:
            silent = (row.ended_at or 0) + SILENT_MS < book.clock.now_ms()
            if not await runs.name_preempted(row.run_id, mark["by"], mark["subject"], patience=0, at_once=silent):
                continue
        await asyncio.to_thread(book.desk.named, desk.project, int(number))


async def _ask_on_behalf(book: Book, project: str) -> None:
    waiting = await asyncio.to_thread(book.instructions.unfinished, project)
    if not waiting:
        return
    log.info("%s owes an edit to %d instruction(s)", project, len(waiting))
    await ask_for_edit(book, waiting[-1])


async def _after_the_end(book: Book, site: Site, desk: SiteRow, row: Row) -> None:
    """An edit ended without telling anybody (its process was killed, or never began)."""
    if row.state is State.CANCELLED and desk.preempting.get("generation") == desk.generation:
        return  # it made way, and its successor has the desk already
    until = None
    if row.state is State.CANCELLED:
        until = await cancelled_by_a_person(row.run_id, desk.project, desk.generation) or row.ended_at
    mine, seen_to = await endings.answered_for(book, desk, row.key, until=until)
    place = endings.workplace_of(site)
    if row.state is State.CANCELLED:
        await endings.cancelled(book, place, row.key, mine, committed=desk.phase == "committed")
    elif row.state is not State.DONE:
        await endings.failed(book, place, row.key, mine, EditFailed(row.reason or "it ended without a word"))
    log.info("%s: %s had ended as %s; the site is free", desk.project, row.key, row.state)
    await endings.leave(book, desk, desk.generation, seen_to)
    await show.history(book, desk.project)
