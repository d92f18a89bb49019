"""An edit that was overtaken stops by itself, also when nobody can tell it so.

Usually Prefect tells it, within a tenth of a second. This is for the rest: Prefect is away or was
restarted at the wrong moment, or the run lives where no signal reaches it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from postroom.errors import LeaseLost
from postroom.ledger import Book

log = logging.getLogger("postroom.flows")
LOOK_SECONDS = 1.5


@asynccontextmanager
async def giving_way(book: Book, project: str, generation: int) -> AsyncIterator[None]:
    """Cancel the block when a newer edit of the site was asked for; it ends with LeaseLost then."""
    body = asyncio.current_task()
    assert body is not None
    newer: int | None = None

    async def look() -> None:
        nonlocal newer
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                row = await asyncio.to_thread(book.desk.read, project)
            except Exception as error:  # the heartbeat decides whether that lasts too long
                log.debug("%s: can't look for a newer edit: %s", project, error)
                continue
            if row.generation > generation:
                newer = row.generation
                body.cancel()
                return

    looking = asyncio.create_task(look(), name=f"successor of edit:{project}:{generation}")
    try:
        yield
    except asyncio.CancelledError:
        if newer is not None and body.uncancel() <= 0:
            raise LeaseLost(f"edit:{project}:{generation} was overtaken by generation {newer}") from None
        raise
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
