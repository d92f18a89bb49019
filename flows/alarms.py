"""Telling people: incidents kept in the book, told to Slack when there is a block for it, and shown in any case."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from html import escape

from prefect.artifacts import acreate_table_artifact

from blocks.slack import alerts_channel
from postroom.health.incidents import Incident, Incidents
from postroom.health.judgement import Trouble
from postroom.ledger.book import open_book
from postroom.ledger.clock import iso

log = logging.getLogger("postroom.flows")


async def raise_alarms(found: Sequence[Trouble], mine: Callable[[str], bool]) -> list[Incident]:
    """Make the incidents agree with the troubles found; all that are open now."""
    channel = await alerts_channel()
    if channel is None:
        log.info("there is no Slack block `alerts`: incidents are logged and shown as an artifact only")
    incidents = Incidents(open_book(), channel)
    now_open = await asyncio.to_thread(incidents.settle, found, mine)
    await show_incidents(now_open)
    return now_open


async def show_incidents(now_open: Sequence[Incident]) -> None:
    table = [
        {
            "since": iso(each.begun_at),
            "severity": each.trouble.severity,
            "incident": escape(each.trouble.title),
            "detail": escape(each.trouble.detail[:500]),
            "told": "yes" if each.message else "no",
        }
        for each in now_open
    ]
    await acreate_table_artifact(table, key="incidents", description="Incidents that are open now.")
