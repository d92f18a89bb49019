"""The place where one edit is made: a workspace for the agent, builds of what it left, and no trace afterwards.

files of main ─▶ workspace ─▶ agent ─▶ snapshot ─▶ build in the sandbox ─▶ check ─▶ a commit ready to be merged
                                │ every half minute
                                └──▶ wip/{edit}: a killed edit loses half a minute, not the work
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from postroom.agent import briefs
from postroom.agent.job import Instruction, Medium, OnProgress, Result
from postroom.agent.reading import readable
from postroom.agent.run import Driver
from postroom.agent.run import run as run_agent
from postroom.aws.clients import client
from postroom.errors import Conflict, LeaseLost
from postroom.media.bucket import BucketShelf
from postroom.sites import changes
from postroom.sites.build import Built
from postroom.sites.content_types import content_type
from postroom.sites.media_lock import LOCK, MEDIA, MediaFile, for_media
from postroom.sites.places import Places
from postroom.sites.rebuild import media_of, rebuild
from postroom.sites.repository import Merged, Repository
from postroom.sites.tree import contents
from postroom.sites.workspace import Snapshot, Workspace

log = logging.getLogger("postroom.sites")
SAVE_SECONDS = 30.0
KEEP_SECONDS = 15.0
_OURS, _THEIRS = re.compile(rb"^<{7} ", re.M), re.compile(rb"^>{7} ", re.M)  # git's marks around a conflict


@dataclass(frozen=True)
class Wish:
    """One instruction with what came with it, as the book has it."""

    instruction: Instruction
    attachments: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Edited:
    """What an agent made of the instructions: a commit that builds."""

    commit: str
    result: Result
    changed: tuple[str, ...]
    refused: tuple[str, ...]
    built: Built


def _heard(line: str) -> None:
    log.info("%s", line)


class Studio:
    """One edit's directory; use as `async with`, and it is gone afterwards."""

    def __init__(
        self, repository: Repository, places: Places, edit: str, root: Path, *, driver: Driver | None = None
    ) -> None:
        self.repository, self.places, self.edit, self.root, self.driver = repository, places, edit, root, driver
        self._fetch = media_of(places.media_bucket)
        self._workspace: Workspace | None = None
        self.result: Result | None = None  # of the last agent, also when it did not finish
        self._builds = 0
        self._guard: Callable[[], None] = lambda: None
        self._closed = False

    async def __aenter__(self) -> Studio:
        await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)  # left by a killed attempt
        self.root.mkdir(parents=True)
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Cut short, for whatever reason, what is there is kept on `wip/{edit}`; the directory goes."""
        try:
            if error is not None and self._workspace is not None:
                saved = await asyncio.wait_for(asyncio.shield(asyncio.to_thread(self.save)), KEEP_SECONDS)
                log.info("the work so far is %s", f"kept on wip as {saved}" if saved else "nothing worth keeping")
        except Exception as trouble:
            log.warning("the work so far could not be kept: %s", trouble)
        finally:
            self._closed = True  # before the files go: a look at them that is under way keeps nothing
            await asyncio.to_thread(shutil.rmtree, self.root, ignore_errors=True)

    async def make(
        self,
        wishes: Sequence[Wish],
        *,
        wip: str | None = None,
        on_progress: OnProgress | None = None,
        guard: Callable[[], None],
    ) -> Edited:
        """Have the agent carry out the wishes on top of main; raises what keeps it from a site that builds."""
        base = await asyncio.to_thread(self.repository.head)
        start = await asyncio.to_thread(self._beginning, base, wip)
        work = await asyncio.to_thread(Workspace, self.repository, self.root / "site", base, start)
        begun = await asyncio.to_thread(self._told_of, base, start) if start is not None else None
        return await self._carry_out(work, wishes, on_progress, guard, unfinished=begun)

    async def settle(
        self,
        wishes: Sequence[Wish],
        conflict: Conflict,
        *,
        on_progress: OnProgress | None = None,
        guard: Callable[[], None],
    ) -> Edited:
        """Main has moved and says something else in the same places: the agent joins the two, once."""
        base, marked = await asyncio.to_thread(self.repository.head), str(conflict.details["tree"])
        work = await asyncio.to_thread(Workspace, self.repository, self.root / "joined", base, marked)
        return await self._carry_out(work, wishes, on_progress, guard, conflict=str(conflict))

    async def _carry_out(
        self,
        work: Workspace,
        wishes: Sequence[Wish],
        on_progress: OnProgress | None,
        guard: Callable[[], None],
        *,
        unfinished: str | None = None,
        conflict: str | None = None,
    ) -> Edited:
        self._workspace, self._guard = work, guard
        await asyncio.to_thread(work.lay_media, media_files(wishes), self._fetch, cache=self.places.media_cache)
        job = briefs.edit_job(
            work.directory,
            [await told(wish, work.directory) for wish in wishes],
            site=self.places.project,
            correlation=self.edit,
            work_in_progress=unfinished,
            conflict=conflict,
        )
        async with self._saving():
            self.result = await run_agent(job, on_line=_heard, on_progress=on_progress, driver=self.driver)
        result = self.result.or_raise()
        guard()
        snapshot = await asyncio.to_thread(self._taken, work)
        if conflict is not None or unfinished is not None:  # unfinished work may be a joining that was cut short
            await asyncio.to_thread(self._demand_no_marks, snapshot)
        commit = await asyncio.to_thread(work.commit, snapshot, self.edit)
        built = await self.build(commit)
        return Edited(commit, result, snapshot.changed, snapshot.refused, built)

    async def build(self, version: str) -> Built:
        """A version of the site, built and found fit to go out."""
        self._builds += 1
        built = await rebuild(
            self.repository,
            version,
            self.places,
            self.root / f"build-{self._builds}",
            on_line=_heard,
            fetch=self._fetch,
        )
        for attempt in built.tried:
            log.warning("the build tried what it may not: %s", attempt)
        return built

    def save(self) -> str | None:
        """Keep what the agent has done so far on `wip/{edit}`."""
        return self._workspace.save(self.edit, guard=self._may_keep) if self._workspace is not None else None

    def _may_keep(self) -> None:
        self._guard()
        if self._closed:
            raise LeaseLost(f"{self.edit} has left its workspace")

    def _beginning(self, base: str, wip: str | None) -> str | None:
        """The interrupted work on top of main, if the two still go together."""
        if wip is None:
            return None
        try:
            return self.repository.merged_tree(base, wip)
        except Conflict:
            log.info("the interrupted work does not fit main any more; it is left out")
            return None

    def _told_of(self, base: str, start: str) -> str:
        """What the interrupted work has changed, file by file."""
        return changes.summary(changes.changed_files(self.repository, base, start))

    @contextlib.asynccontextmanager
    async def _saving(self) -> AsyncIterator[None]:
        async def keep() -> None:
            while True:
                await asyncio.sleep(SAVE_SECONDS)
                try:
                    await asyncio.to_thread(self.save)
                except Exception as error:
                    log.warning("the work so far could not be saved: %s", error)

        keeper = asyncio.create_task(keep(), name=f"wip {self.edit}")
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    def _taken(self, work: Workspace) -> Snapshot:
        """What the agent left, without media that no page speaks of."""
        snapshot = work.snapshot()
        for path in snapshot.refused:
            log.warning("%s is not the agent's to write; it stays as it was", path)
        spoken = b"\n".join(
            content
            for path, _, content in contents(self.repository.path, dict(snapshot.entries))
            if not path.startswith(MEDIA) and path != LOCK and len(content) < 2_000_000
        )
        before = dict(work.media)
        for path, file in before.items():
            if Path(path).name.encode() not in spoken:
                work.directory.joinpath(path).unlink(missing_ok=True)
                del work.media[path]
            elif file.key.startswith("documents/"):
                work.media[path] = self._kept_for_good(file)
        return snapshot if work.media == before else work.snapshot()

    def _demand_no_marks(self, snapshot: Snapshot) -> None:
        """Raise Conflict when both sides of a conflict still stand in a file, for visitors to read."""
        changed = {path: entry for path, entry in snapshot.entries.items() if path in snapshot.changed}
        left = sorted(
            path
            for path, _, content in contents(self.repository.path, changed)
            if _OURS.search(content) and _THEIRS.search(content)
        )
        if left:
            raise Conflict(
                f"the agent was asked to join two versions and left both in {', '.join(left)}",
                safe="Somebody else changed the same places meanwhile, and the two could not be joined.",
                files=left,
            )

    def _kept_for_good(self, file: MediaFile) -> MediaFile:
        """A document that a page speaks of moves out of the shelf that is cleared after a while."""
        content = self._fetch(file.key)
        key = f"{hashlib.sha256(content).hexdigest()}/{Path(file.key).name}"
        BucketShelf(client("s3"), self.places.media_bucket).put_new(key, content, content_type(file.path))
        return replace(file, key=key)


def media_files(wishes: Iterable[Wish]) -> list[MediaFile]:
    """All files that came with these wishes, as the site's lock names them."""
    return [file for wish in wishes for attachment in wish.attachments for file in for_media(attachment)]


async def told(wish: Wish, directory: Path) -> Instruction:
    """The instruction with its media as they lie in the workspace, and the text of its documents."""
    media = []
    for attachment in wish.attachments:
        main, *others = [file.path for file in for_media(attachment)]
        text = await readable(directory / main) if attachment["kind"] == "document" else None
        media.append(
            Medium(
                filename=str(attachment["filename"]),
                kind=attachment["kind"],
                path=main,
                fallback=others[0] if others else None,
                width=attachment.get("width"),
                height=attachment.get("height"),
                text=text,
            )
        )
    return replace(wish.instruction, media=tuple(media))


def what_changed(repository: Repository, merged: Merged) -> tuple[list[str], str]:
    """The files that a merge touched, and the difference as a patch."""
    before = merged.parent or f"{merged.commit}^"
    files = changes.changed_files(repository, before, merged.commit)
    return [change.path for change in files], changes.diff(repository, before, merged.commit)
