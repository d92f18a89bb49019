"""The edit site becomes the public one, asked for by a person in the Prefect UI.

It is a wish like one that came by mail: into the book, and the site's next edit carries it out, after
whatever is being worked on now.
"""

from __future__ import annotations

import asyncio
from typing import Any

import prefect.runtime.flow_run
from prefect import flow

from blocks.site import find_site
from flows import runs
from flows.desk import ask_for_edit
from postroom.errors import Missing
from postroom.ledger.book import open_book
from postroom.ledger.instructions import Instruction


@flow(name="publish-site", flow_run_name="publish {project}", retries=0)
async def publish_site(project: str) -> dict[str, Any]:
    """Ask for a site to be published; gives the edit that will do it."""
    if await find_site(project) is None:
        raise Missing(f"there is no site {project}")
    book = open_book()
    wish = Instruction(
        project=project,
        message_id=f"publish-{prefect.runtime.flow_run.id}",  # this run, retried, asks once
        user="operator",
        thread_id=f"publish-{prefect.runtime.flow_run.id}",
        received_at=book.clock.now_ms(),
        sender="",
        subject="publish",
        text="publish",
        kind="publish",
    )
    await runs.introduce(f"{project}: publish", [f"site:{project}"])
    known = await asyncio.to_thread(book.instructions.find, project, wish.message_id)
    if known is None:
        await asyncio.to_thread(book.instructions.enter, wish)
    asked = await ask_for_edit(book, known or wish)
    return {"project": project, "edit": asked.edit_key}
