"""What the Prefect server announces about the runs of one pool, as it happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventAnyResourceFilter, EventFilter, EventNameFilter

log = logging.getLogger(__name__)

What = Literal["connected", "lost", "scheduled", "cancelling", "cancelled", "suspended", "redeployed"]
_EVENTS: dict[str, What] = {
    "prefect.flow-run.Scheduled": "scheduled",
    "prefect.flow-run.AwaitingRetry": "scheduled",
    "prefect.flow-run.Rescheduled": "scheduled",  # what the sensor calls a new attempt
    "prefect.flow-run.AwaitingConcurrencySlot": "scheduled",
    "prefect.flow-run.Late": "scheduled",
    "prefect.flow-run.Resuming": "scheduled",
    "prefect.flow-run.Cancelling": "cancelling",
    "prefect.flow-run.Cancelled": "cancelled",
    "prefect.flow-run.Suspended": "suspended",
    "prefect.deployment.updated": "redeployed",
}


@dataclass(frozen=True)
class Announcement:
    """Something happened to a run or a deployment (`about`), or to the line to the server itself."""

    what: What
    about: UUID | None = None


async def announcements(pool: UUID) -> AsyncIterator[Announcement]:
    """Announcements for ever; a broken line is mended, and both its loss and its return are told."""
    pause = 0.2
    while True:
        try:
            async with aclosing(_listen(pool)) as heard:
                async for each in heard:
                    pause = 0.2
                    yield each
        except Exception as error:  # whatever breaks the line, the answer is to mend it
            log.debug("the line for announcements broke: %r", error)
        yield Announcement("lost")
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5)


async def _listen(pool: UUID) -> AsyncIterator[Announcement]:
    wanted = EventFilter(
        event=EventNameFilter(name=list(_EVENTS)),
        any_resource=EventAnyResourceFilter(id=[f"prefect.work-pool.{pool}"]),
    )
    async with get_events_subscriber(filter=wanted, reconnection_attempts=0) as subscriber:
        yield Announcement("connected")
        async for event in subscriber:
            about = event.resource.id.rpartition(".")[2]
            try:
                yield Announcement(_EVENTS[event.event], UUID(about))
            except (KeyError, ValueError):
                log.debug("an announcement about %r makes no sense here: %r", event.resource.id, event.event)
