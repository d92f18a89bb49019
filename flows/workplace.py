"""Where a site is worked on: its repository, places and interrupted work, from its block."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from blocks.site import Site
from postroom.agent.job import Earlier
from postroom.agent.job import Instruction as Told
from postroom.errors import PostroomError
from postroom.ledger import Book, Holding, Row, State
from postroom.ledger.instructions import Instruction, generation_of
from postroom.settings import settings
from postroom.sites.places import Places
from postroom.sites.repository import Repository
from postroom.sites.studio import Studio, Wish

log = logging.getLogger("postroom.flows")
T = TypeVar("T")


class Workplace:
    """All that an edit of one site needs to find."""

    def __init__(self, site: Site) -> None:
        self.places = Places(site.project, site.domain)
        self.driver = site.agent or settings().agent
        self.repository = Repository(self.places.repository, site.repo)

    def clear(self) -> None:
        """Remove what killed attempts have left behind; to be called when the site is ours alone."""
        ours = re.compile(rf"edit-{re.escape(self.places.project)}-\d+-\d+")
        for left in self.places.work("edit").parent.glob("edit-*"):
            if ours.fullmatch(left.name):
                shutil.rmtree(left, ignore_errors=True)
        # Whoever made what is older than the promise has lost its lease: by then another may take over.
        self.repository.clear_leftovers(settings().promise_seconds)

    def studio(self, edit: str, holding: Holding) -> Studio:
        """A place to work at that no other attempt shares."""
        return Studio(
            self.repository, self.places, edit, self.places.work(f"{edit}-{holding.fence}"), driver=self.driver
        )

    def same_files(self, one: str, other: str) -> bool:
        """Whether two commits hold the same files: then the build of one is the build of the other."""
        return self.repository.tree(one) == self.repository.tree(other)

    def on_main(self) -> dict[str, str]:
        """Every instruction that is on main, with its commit."""
        try:
            self.repository.fetch()
        except PostroomError as error:  # what was merged here is known here
            log.warning("the remote repository can't be asked: %s", error)
        return self.repository.instructions()

    def interrupted_work(self, book: Book, edit: str, threads: Collection[str] = ()) -> str | None:
        """What this edit, or the last one that had to make way, has done; an agent that can't think begins anew.

        `threads` are those this edit works on: what was kept for them when turns, money or time ran out counts too.
        """
        if self.driver == "literal":
            return None
        return next((self.repository.wips()[name] for name in self._to_carry_on(book, edit, threads)), None)

    def _to_carry_on(self, book: Book, edit: str, threads: Collection[str] = ()) -> Iterator[str]:
        """Interrupted work that is wanted still, newest first: none from before the last edit that came onto main,
        but what was kept for one of these threads."""
        wips = {_generation(name): name for name in self.repository.wips()}
        if not wips:
            return
        key = f"edit:{self.places.project}:"
        rows = book.leases.find_many([f"{key}{n}" for n in range(min(wips), generation_of(edit) + 1)])
        kept, landed = self._kept_for(book, rows), False
        for n in range(generation_of(edit), min(wips) - 1, -1):
            row = rows.get(f"{key}{n}")
            made_way = f"{key}{n}" == edit or (row is not None and _made_way(row))
            if n in wips and ((made_way and not landed) or not kept.get(f"{key}{n}", set()).isdisjoint(threads)):
                yield wips[n]
            landed = landed or (row is not None and row.state is State.DONE and bool(row.outcome.get("commit")))

    def _kept_for(self, book: Book, rows: Mapping[str, Row]) -> dict[str, set[str]]:
        """Edits that ran out of turns, money or time, and the threads that were told that the work is kept."""
        kept: dict[str, set[str]] = {key: set() for key, row in rows.items() if _ran_out(row)}
        for one in book.instructions.of_project(self.places.project) if kept else ():
            if one.edit in kept:
                kept[one.edit].add(one.thread_id)
        return kept

    def forget_what_was_carried_on(self, book: Book, edit: str) -> None:
        """Nothing waits for it any more; what a person may still want to be carried on stays."""
        self._drop(lambda: list(self._to_carry_on(book, edit)))

    def forget_interrupted_work(self, book: Book, threads: Collection[str]) -> None:
        """All of it is on main now, or was not wanted; what was kept for other threads than these stays."""

        def unwanted() -> list[str]:
            names = {f"edit:{self.places.project}:{_generation(name)}": name for name in self.repository.wips()}
            kept = self._kept_for(book, book.leases.find_many(list(names)))
            return [name for key, name in names.items() if not kept.get(key) or not kept[key].isdisjoint(threads)]

        self._drop(unwanted)

    def _drop(self, unwanted: Callable[[], Iterable[str]]) -> None:
        try:
            for name in unwanted():
                self.repository.drop_wip(name)
        except PostroomError as error:
            log.warning("interrupted work could not be removed: %s", error)


def _generation(wip: str) -> int:
    number = wip.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _made_way(row: Row) -> bool:
    """Whether its work is wanted still: not when it failed or a person cancelled it, unless one retried it since."""
    made_way = row.state is State.CANCELLED and (row.reason or "").startswith(("preempted", "overtaken"))
    return made_way or (row.state is State.DONE and "edit" in row.outcome)


def _ran_out(row: Row) -> bool:
    return row.state is State.FAILED and row.outcome.get("limit") in ("turns", "budget", "time")


async def to_its_end(work: Callable[[], T]) -> T:
    """What a call in a thread gives. Who is cancelled meanwhile waits for it: what main says then is final."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled() and (error := working.exception()):
            log.info("cancelled, and it had failed: %s", error)
        raise


async def wishes(book: Book, wanted: Sequence[Instruction]) -> list[Wish]:
    """The instructions with what was said before in their threads."""
    found = []
    for one in wanted:
        said = await asyncio.to_thread(book.threads.read, one.project, one.thread_id)
        history = tuple(
            Earlier(before.who, _when(before.at), before.text)
            for before in said
            if before.message_id != one.message_id and before.at < one.received_at
        )
        told = Told(
            one.message_id,
            one.sender,
            one.subject,
            one.text,
            _when(one.received_at),
            forwarded=one.forwarded,
            history=history,
        )
        found.append(Wish(told, one.attachments))
    return found


def _when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
