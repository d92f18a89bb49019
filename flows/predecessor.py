"""Two edits of a site never work at the same time: the newer waits until the older has let go or is gone."""

from __future__ import annotations

import asyncio
import functools
import logging

from flows import runs
from flows.desk import let_go
from postroom.ledger import Book, State
from postroom.ledger.rows import Row

log = logging.getLogger("postroom.flows")
LOOK_SECONDS = 0.25


async def wait_for_predecessor(book: Book, project: str, generation: int) -> None:
    """Return when no earlier generation holds the site; one that was preempted is shown as such."""
    earlier = f"edit:{project}:{generation - 1}"
    row = await asyncio.to_thread(book.leases.find, earlier)
    if row is None:
        return
    desk = await asyncio.to_thread(book.desk.read, project)
    preempted = desk.preempting.get("generation") == generation - 1
    by, subject = str(desk.preempting.get("by", "")), str(desk.preempting.get("subject", ""))
    asked = False
    while not gone(row, book.clock.now_ms()):
        if not asked:
            log.info("%s has yet to let go", earlier)
            await let_go(book, earlier)
            asked = True
        await asyncio.sleep(LOOK_SECONDS)
        row = await asyncio.to_thread(book.leases.read, earlier)
    silent = row.state is State.WORKING
    if not row.terminal:
        how = "it gave no sign of life" if silent else "it waited for its next attempt"
        log.warning("%s was overtaken: %s", earlier, how)
        overtaken = functools.partial(book.leases.close, put_off_too=True)
        row = await asyncio.to_thread(overtaken, earlier, State.CANCELLED, "overtaken by a newer edit")
        if not row.terminal:  # its next attempt has begun just now
            await wait_for_predecessor(book, project, generation)
            return
        await asyncio.to_thread(_note_interruption, book, project, earlier, by, f"{how} and was overtaken")
    if row.run_id and preempted:
        naming = asyncio.create_task(_name(book, project, generation - 1, row.run_id, by, subject, silent))
        _kept.add(naming)
        naming.add_done_callback(_kept.discard)


async def _name(book: Book, project: str, generation: int, run_id: str, by: str, subject: str, silent: bool) -> None:
    """Promptly, if we live long enough; the site is kept in order by others too (`flows.care`)."""
    try:
        if await runs.name_preempted(run_id, by, subject, at_once=silent):
            await asyncio.to_thread(book.desk.named, project, generation)
    except Exception as error:
        log.info("edit:%s:%d is not shown as preempted yet: %s", project, generation, error)


def _note_interruption(book: Book, project: str, edit: str, by: str, reason: str) -> None:
    """On behalf of an edit that could not do it itself."""
    unfinished = book.instructions.unfinished(project)
    threads = sorted({one.thread_id for one in unfinished if one.edit == edit})
    book.threads.interrupted(project, threads, edit=edit, by=by, reason=reason)


def gone(row: Row, now_ms: int) -> bool:
    """Whether nobody can be working under this row any more."""
    return row.state is not State.WORKING or row.effective_until <= now_ms


_kept: set[asyncio.Task[None]] = set()
