"""An edit of a site: everything that was said and not yet done, carried out in one go.

    the site is free → gather every unfinished instruction → agent → build → check
      → merge (the commit point: from here on it is done) → deploy → answer each thread → release

A newer mail may preempt it up to the commit point; what it has done so far is kept for the next edit.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import prefect.runtime.flow_run
from prefect import flow

from blocks.site import find_site
from flows import answering, endings, runs, show
from flows.desk import edit_work, summon_generation
from flows.once import Subject, asked_by_a_person, once
from flows.predecessor import wait_for_predecessor
from flows.steps import reached
from flows.successor import giving_way
from flows.who_cancelled import cancelled_by_a_person
from flows.workplace import Workplace, to_its_end, wishes
from postroom.errors import Conflict, LeaseLost, LimitReached, Missing, OutOfTime, PostroomError, TimedOut
from postroom.ledger import Holding
from postroom.ledger.book import Book, open_book
from postroom.ledger.instructions import Instruction, alike
from postroom.settings import settings
from postroom.sites.changes import touched
from postroom.sites.deploy import deploy, publish
from postroom.sites.repository import MAIN, Merged
from postroom.sites.sandbox import layers
from postroom.sites.screenshot import screenshot
from postroom.sites.studio import Edited, Studio, what_changed

log = logging.getLogger("postroom.flows")


@flow(name="edit-site", flow_run_name="edit {project} #{generation}", retries=0)
async def edit_site(project: str, generation: int) -> dict[str, Any]:
    """Carry out every unfinished instruction of a site."""
    key = f"edit:{project}:{generation}"
    subject = Subject(key, "edit", "Edit", f"EDIT#{project}:{generation}", edit_work(project, generation))
    edit = Edit(open_book(), project, generation)
    return await once(subject, edit.carry_out, on_cancel=edit.let_go, on_failure=edit.give_up)


class Edit:
    """One edit of one site; `gathered` is what it has taken on."""

    def __init__(self, book: Book, project: str, generation: int) -> None:
        self.book, self.project, self.generation = book, project, generation
        self.key = f"edit:{project}:{generation}"
        self.gathered: list[Instruction] = []
        self.place: Workplace | None = None

    async def carry_out(self, holding: Holding) -> dict[str, Any]:
        """What was done; the site is left to the next edit when more was said meanwhile."""
        await wait_for_predecessor(self.book, self.project, self.generation)
        if await self.has_left():
            if await asked_by_a_person():
                return await endings.once_more(self.book, self.project, self.key)
            log.info("an earlier attempt has done all of it")
            return {"instructions": []}
        site = await find_site(self.project)
        if site is None:
            raise Missing(f"there is no block for the site {self.project}; to mend: postroom site add")
        if site.paused and await asyncio.to_thread(self.book.desk.step_back, self.project, self.generation):
            return {"paused": True, "instructions": []}
        reached("site taken over", self.project)
        holding.check()
        self.place = place = Workplace(site)
        await self.gather()
        reached("gathered", self.project)
        for layer in await asyncio.to_thread(layers):
            log.info("sandbox: %s %s (%s)", layer.name, "on" if layer.on else "OFF", layer.how)
        await asyncio.to_thread(place.clear)
        done: dict[str, Any] = {"instructions": [i.message_id for i in self.gathered]}
        if self.gathered:
            successor = giving_way(self.book, self.project, self.generation)
            seconds = settings().edit_seconds
            try:
                async with asyncio.timeout(seconds) as time, successor, place.studio(self.key, holding) as studio:
                    done |= await self.work(place, studio, holding)
            except TimeoutError:
                if not time.expired():
                    raise
                raise OutOfTime(f"the edit took longer than {seconds} s", limit="time") from None
        if all(one.kind != "publish" for one in self.gathered):  # all of it has ended, maybe in an attempt before this
            await asyncio.to_thread(place.forget_what_was_carried_on, self.book, self.key)
        await show.history(self.book, self.project)
        await self.release()
        reached("released", self.project)
        return done

    async def has_left(self) -> bool:
        """Whether an attempt that died at the very end has left the desk; LeaseLost when a newer edit was preferred."""
        row = await asyncio.to_thread(self.book.desk.read, self.project)
        if row.preempting.get("generation") == self.generation:
            raise LeaseLost(f"{self.key} was overtaken by generation {row.generation}")
        return row.generation != self.generation or row.phase == "idle"

    async def gather(self) -> None:
        """Take on what is unfinished, oldest first; of different kinds of wishes only the first kind.

        Past the commit point, in an earlier attempt, only what it had taken on: nobody has seen to the rest.
        """
        row = await asyncio.to_thread(self.book.desk.read, self.project)
        waiting = await asyncio.to_thread(self.book.instructions.unfinished, self.project)
        if row.phase == "committed":
            mine = [i for i in waiting if i.edit == self.key]
        else:
            mine = alike(waiting)
            newest = mine[-1].order if mine else ""
            seq = row.latest_seq - (len(waiting) - len(mine))
            await asyncio.to_thread(
                self.book.desk.begin, self.project, self.generation, gathered_seq=seq, newest=newest
            )
        self.gathered = await asyncio.to_thread(self.book.instructions.taken, mine, self.key)
        log.info("%d instruction(s) gathered", len(self.gathered))
        title = self.gathered[-1].subject if self.gathered else "nothing to do"
        who = f"/{self.gathered[-1].user}" if self.gathered else ""
        more = f" (and {len(self.gathered) - 1} more)" if len(self.gathered) > 1 else ""
        await runs.introduce(f"{self.project}{who}: {title}{more}", [f"mail:{i.message_id}" for i in self.gathered])
        await show.history(self.book, self.project)  # also what was preempted for it

    async def work(self, place: Workplace, studio: Studio, holding: Holding) -> dict[str, Any]:
        """First what an earlier attempt has put on main already, then the rest."""
        await asyncio.to_thread(place.repository.fetch)
        on_main = await asyncio.to_thread(place.repository.instructions)
        carried = [i for i in self.gathered if i.message_id in on_main]
        fresh = [i for i in self.gathered if i.message_id not in on_main]
        done: dict[str, Any] = {}
        if carried:
            log.info("%d of them are on main already; finishing what follows", len(carried))
            sha = on_main[carried[-1].message_id]
            body = await asyncio.to_thread(place.repository.told, sha)
            merged = Merged(sha, None, already=True, told=body)
            done = await self.go_out(place, studio, holding, carried, merged, None)
        if fresh:
            match fresh[0].kind:
                case "publish":
                    done = await self.publish(place, holding, fresh)
                case "undo":
                    done = await self.undo(place, studio, holding, fresh)
                case _:
                    done = await self.edit(place, studio, holding, fresh)
        return done

    async def edit(
        self, place: Workplace, studio: Studio, holding: Holding, wanted: list[Instruction]
    ) -> dict[str, Any]:
        """Agent, build, check, merge."""
        wanted_so = await wishes(self.book, wanted)
        wip = await asyncio.to_thread(place.interrupted_work, self.book, self.key, {i.thread_id for i in wanted})
        try:
            edited = await studio.make(wanted_so, wip=wip, guard=holding.check)
        except PostroomError as error:
            if studio.result is not None:  # what it did and cost is of interest above all when it failed
                await show.usage(self.key, studio.result)
            if not isinstance(error, TimedOut):
                raise
            # a stuck agent is tried once more, not thrice; attempts that ended otherwise do not count
            if await asyncio.to_thread(self.book.desk.was_stuck, self.project, self.generation):
                raise LimitReached(f"twice in a row: {error}", limit="time", safe="It took too long.") from error
            raise
        reached("edited and built", self.project)
        await show.usage(self.key, edited.result)
        try:
            merged = await self.merge(place, holding, wanted, edited)
        except Conflict as conflict:
            if "tree" not in conflict.details:
                raise
            log.info("main says something else in the same places (%s); the agent joins the two", conflict)
            edited = await studio.settle(wanted_so, conflict, guard=holding.check)
            merged = await self.merge(place, holding, wanted, edited)
        reached("merged", self.project)
        return await self.go_out(place, studio, holding, wanted, merged, edited)

    async def merge(self, place: Workplace, holding: Holding, wanted: list[Instruction], edited: Edited) -> Merged:
        """The commit point: before it all may be thrown away, after it the instructions are carried out."""
        output = edited.result.output or {}
        holding.check()
        await asyncio.to_thread(self.book.desk.commit, self.project, self.generation)
        reached("commit point passed", self.project)
        return await to_its_end(
            lambda: place.repository.merge(
                edited.commit,
                subject=wanted[-1].subject,
                body=str(output.get("summary") or edited.result.text),
                instructions=[i.message_id for i in wanted],
                guard=holding.check,
            )
        )

    async def undo(
        self, place: Workplace, studio: Studio, holding: Holding, wanted: list[Instruction]
    ) -> dict[str, Any]:
        """Take back the last edit, once however often it was asked for in a row."""
        holding.check()
        await asyncio.to_thread(self.book.desk.commit, self.project, self.generation)
        try:
            ids = [i.message_id for i in wanted]
            merged = await to_its_end(lambda: place.repository.undo(ids, guard=holding.check))
        except Missing as nothing:
            await answering.failed(self.book, self.key, wanted, nothing)
            return {"commit": None, "reason": str(nothing)}
        return await self.go_out(place, studio, holding, wanted, merged, None)

    async def publish(self, place: Workplace, holding: Holding, wanted: list[Instruction]) -> dict[str, Any]:
        """Copy the edit site to production."""
        holding.check()
        await asyncio.to_thread(self.book.desk.commit, self.project, self.generation)
        places = place.places
        published = await asyncio.to_thread(publish, places.edit_bucket, places.production_bucket, check=holding.check)
        holding.check()
        told = answering.Told("The site is published.", published=places.production_url)
        await answering.done(self.book, self.key, wanted, told)
        return {"published": len(published.uploaded)}

    async def go_out(
        self,
        place: Workplace,
        studio: Studio,
        holding: Holding,
        wanted: list[Instruction],
        merged: Merged,
        edited: Edited | None,
    ) -> dict[str, Any]:
        """Main's newest version onto the edit site; then everybody is told."""
        places = place.places
        as_built = edited is not None and await asyncio.to_thread(place.same_files, edited.commit, merged.commit)
        built = edited.built if edited is not None and as_built else await studio.build(MAIN)
        deployed = await asyncio.to_thread(deploy, built.dist, places.edit_bucket, check=holding.check)
        reached("deployed", self.project)
        output = dict(edited.result.output or {}) if edited is not None else {}
        files, patch = await asyncio.to_thread(what_changed, place.repository, merged)
        pages = await asyncio.to_thread(touched, built.dist, files, output.get("pages") or (), deployed.uploaded)
        picture = await screenshot(built.dist, pages[0] if pages else "/")
        told = answering.Told(
            summary=str(output.get("summary") or merged.told or answering.plain_summary(wanted)),
            pages=tuple(pages),
            edit_url=places.page_url(pages[0] if pages else "/"),
            questions=tuple(output.get("questions") or ()),
            remarks=(edited.result.note,) if edited is not None and edited.result.note else (),
            screenshot=picture,
            commit=merged.commit,
        )
        holding.check()
        await show.edit(self.key, places.edit_url, patch, pages, picture)
        await answering.done(self.book, self.key, wanted, told)
        reached("answered", self.project)
        await asyncio.to_thread(place.forget_interrupted_work, self.book, {i.thread_id for i in wanted})
        return {
            "commit": merged.commit,
            "pages": pages,
            "edit_url": told.edit_url,
            "uploaded": len(deployed.uploaded),
            "attachments": sum(len(i.attachments) for i in wanted),
            "unique_attachments": len({a["sha256"] for i in wanted for a in i.attachments}),
            "interrupted": len(await asyncio.to_thread(self.book.threads.interruptions_of, self.project)),
        }

    async def release(self) -> None:
        """Leave the desk to the next edit, if one is wanted."""
        asked = await asyncio.to_thread(self.book.desk.release, self.project, self.generation)
        if asked is not None:
            await summon_generation(self.book, self.project, asked.generation, preempted=None)

    # when it does not come to its end

    async def let_go(self, holding: Holding, by_a_person: bool) -> str | None:
        """The instructions wait for the next edit, unless a person cancelled them in time. The studio kept the work."""
        if not by_a_person:
            return None
        holding.check()
        row = await asyncio.to_thread(self.book.desk.read, self.project)
        run_id = str(prefect.runtime.flow_run.id or "")
        cancelled_at = await cancelled_by_a_person(run_id, self.project, self.generation)
        if row.generation > self.generation and cancelled_at is None:  # what we gathered is the newer edit's to do now
            mark = row.preempting if row.preempting.get("generation") == self.generation else {}
            return await self.make_way(str(mark.get("by") or row.edit_key), str(mark.get("subject", "")))
        mine, seen_to = self.gathered, row.gathered_seq
        if not mine:
            mine, seen_to = await endings.answered_for(self.book, row, self.key, until=cancelled_at)
        committed = row.generation == self.generation and row.phase == "committed"
        reason = await endings.cancelled(self.book, self.place, self.key, mine, committed=committed)
        await endings.leave(self.book, row, self.generation, seen_to)
        await show.history(self.book, self.project)
        return reason

    async def make_way(self, by: str, subject: str) -> str:
        threads = sorted({i.thread_id for i in self.gathered})
        said = f"preempted by {by} ({subject})"
        await asyncio.to_thread(self.book.threads.interrupted, self.project, threads, edit=self.key, by=by, reason=said)
        await asyncio.to_thread(self.book.instructions.waiting_again, self.gathered, self.key)
        return said

    async def give_up(self, holding: Holding, error: PostroomError) -> None:
        """It failed for good: whoever asked is told, and the site is free again."""
        if not self.gathered:
            await self.gather()
        await endings.failed(self.book, self.place, self.key, self.gathered, error)
        await self.release()
        await show.history(self.book, self.project)
