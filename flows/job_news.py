"""Who hears of the end of a task. Jobs do: a dependent starts when its parents are done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from flows import jobs
from postroom.errors import classify
from postroom.ledger import Row
from postroom.ledger.book import Book

log = logging.getLogger("postroom.flows")
Listener = Callable[[Book, Mapping[str, Any], Row], Awaitable[None]]
LISTENERS: list[Listener] = [jobs.hear_of_task]  # (the book, the task as it was sent, its row, ended)


async def after_task(book: Book, task: Mapping[str, Any], key: str) -> None:
    """Tell the listeners, if the task has ended; never raises. Told at least once, unless the process dies just here,
    the book is away or the sweeper ended the task: whoever relies on it must also look for itself now and then."""
    if not LISTENERS:
        return
    try:
        row = await asyncio.to_thread(book.leases.find, key)
    except Exception as error:  # how the task ended is decided already
        log.warning("whether %s has ended can't be read, so nobody is told: %s", key, classify(error))
        return
    if row is None or not row.terminal:
        return
    for listener in LISTENERS:
        try:
            await listener(book, task, row)
        except Exception as error:
            log.warning("%s has ended, but not everybody could be told: %s", key, error)
