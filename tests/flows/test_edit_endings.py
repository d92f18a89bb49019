"""Edits that do not come to their end: who asked is told the truth, and what was unwanted stays away."""

import asyncio
import json
import os
import urllib.request
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterIdempotencyKey
from prefect.flow_engine import run_flow
from prefect.states import AwaitingRetry, Failed, Running, Scheduled

from blocks.site import Site
from flows import answering, care, runs, show
from flows.desk import ask_for_edit
from flows.edit_site import Edit, edit_site
from flows.predecessor import wait_for_predecessor
from flows.workplace import Workplace
from postroom.agent.job import error_of
from postroom.aws.names import Names
from postroom.errors import LeaseLost, LimitReached, OutOfTime, TimedOut, Unavailable
from postroom.ledger import Granted, Holding, State
from postroom.ledger.book import Book
from postroom.ledger.desk import Answer
from postroom.ledger.instructions import Instruction
from postroom.settings import settings
from postroom.sites.repository import Repository
from postroom.sites.studio import Studio
from postroom.sites.workspace import Workspace
from tests.flows.premises import deployed


@pytest.fixture
def book(provisioned: Names) -> Book:
    return Book(settings())


@pytest.fixture
def place(provisioned: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """A small site, edited by an agent that can think; nobody builds it here."""
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path))
    settings.cache_clear()
    site = site_block()
    start = tmp_path / "start"
    start.mkdir()
    (start / "package.json").write_text("{}")
    Repository.create(tmp_path / "sites" / f"{site.project}.git", start)
    yield Workplace(site)
    settings.cache_clear()


def site_block() -> Site:
    return Site(
        project="garden", users=["owner"], domain="example.com", senders=["*@example.com"], repo=None, agent="claude"
    )


def said(name: str, at: int = 1, **more: Any) -> Instruction:
    given = {"user": "owner", "thread_id": name, "sender": f"{name}@example.com", "subject": name, "text": name}
    return Instruction(project="garden", message_id=name, received_at=at, **{**given, **more})


class Begun:
    """An edit that has gathered what was said, holding its lease."""

    def __init__(self, book: Book, place: Workplace, *instructions: Instruction) -> None:
        self.book, self.place = book, place
        for one in instructions:
            book.instructions.enter(one)
        asked = book.desk.ask("garden", order=instructions[-1].order)
        started = book.leases.start(asked.edit_key, "edit", f"holder-{uuid.uuid4()}")
        assert isinstance(started, Granted)
        self.lease = started.lease
        self.edit = Edit(book, "garden", asked.generation)
        self.edit.place = place

    async def gather(self) -> Holding:
        await self.edit.gather()
        return Holding(self.book, self.lease)

    def merge(self, *instructions: str) -> str:
        """Past the commit point, and onto main."""
        self.book.desk.commit("garden", self.edit.generation)
        repository = self.place.repository
        files = repository.tree(repository.head())
        commit = repository.commit(files, repository.head(), "work\n")
        return repository.merge(commit, subject="x", instructions=instructions).commit

    def save(self, *files: str) -> None:
        """Unfinished work."""
        repository = self.place.repository
        entry = next(iter(repository.tree(repository.head()).values()))
        repository.save_wip(self.edit.key, dict.fromkeys(files, entry), repository.head())


def letters(url: str, to: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/_postroom/outbox") as answer:
        return [mail for mail in json.load(answer) if mail["to"] == [to]]


@pytest.fixture
async def prefect(prefect_server: str) -> AsyncIterator[None]:
    async with deployed("edit_site"):
        yield


async def test_a_cancel_after_the_commit_point_leaves_the_rest_to_the_next_edit(
    book: Book, place: Workplace, prefect: None, local_aws: str
) -> None:
    on_main, not_yet = f"made-{uuid.uuid4().hex[:6]}", f"late-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(on_main, 1), said(not_yet, 2))
    holding = await begun.gather()
    begun.merge(on_main)
    assert (await begun.edit.let_go(holding, True) or "").startswith("cancelled by operator after the commit point")
    left = book.instructions.find("garden", on_main)
    assert left is not None
    assert left.status == "waiting"
    assert letters(local_aws, f"{on_main}@example.com") == []  # the next edit tells what it did
    other = book.instructions.find("garden", not_yet)
    assert other is not None
    assert other.status == "cancelled"
    assert "The site is as it was" in letters(local_aws, f"{not_yet}@example.com")[0]["text"]
    desk = book.desk.read("garden")
    assert (desk.phase, desk.generation) == ("asked", begun.edit.generation + 1)


async def test_who_is_on_main_hears_that_it_is_made_also_when_it_can_not_be_shown(
    book: Book, place: Workplace, local_aws: str
) -> None:
    name = f"made-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    holding = await begun.gather()
    commit = begun.merge(name)
    await begun.edit.give_up(holding, Unavailable("the bucket does not answer"))
    (answer,) = letters(local_aws, f"{name}@example.com")
    assert "was carried out" in answer["text"]
    assert "as it was before" not in answer["text"]
    assert answer["headers"]["Reply-To"] == "garden+owner@example.com"
    ended = book.instructions.find("garden", name)
    assert ended is not None
    assert (ended.status, ended.outcome["commit"]) == ("failed", commit)


async def test_an_edit_that_died_after_the_merge_is_told_of_truthfully_by_the_sweeper(
    book: Book, place: Workplace, local_aws: str
) -> None:
    name = f"made-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    await begun.gather()
    begun.merge(name)
    book.leases.close(begun.edit.key, State.FAILED, "attempts used up", only_if_free=False)
    await care.in_order(book, site_block())
    (answer,) = letters(local_aws, f"{name}@example.com")
    assert "was carried out" in answer["text"]
    assert book.desk.read("garden").phase == "idle"


@pytest.mark.parametrize("how", ["cancelled", "failed", "killed"])
async def test_work_that_was_cancelled_or_failed_does_not_come_back(book: Book, place: Workplace, how: str) -> None:
    first = Begun(book, place, said("one", 1))
    holding = await first.gather()
    first.save("package.json", "unwanted.html")
    match how:
        case "cancelled":
            await first.edit.let_go(holding, True)
        case "failed":
            await first.edit.give_up(holding, Unavailable("it does not build"))
        case _:
            book.leases.close(first.edit.key, State.CANCELLED, "cancelled by a person", only_if_free=False)
    assert place.interrupted_work(book, "edit:garden:2") is None


async def test_work_of_an_edit_that_made_way_is_carried_on(book: Book, place: Workplace) -> None:
    first = Begun(book, place, said("one", 1))
    await first.gather()
    first.save("package.json", "wanted.html")
    book.leases.close(first.edit.key, State.CANCELLED, "preempted by two (two)", only_if_free=False)
    assert place.interrupted_work(book, "edit:garden:2") is not None


@pytest.mark.parametrize("sender", ["jürgen@example.com", '"a b"@example.com', f"{'x' * 70}@example.com"])
async def test_who_can_not_be_answered_does_not_hold_up_the_site(book: Book, place: Workplace, sender: str) -> None:
    begun = Begun(book, place, said("one", 1, sender=sender))
    holding = await begun.gather()
    await begun.edit.give_up(holding, Unavailable("it does not build"))
    ended = book.instructions.find("garden", "one")
    assert ended is not None
    assert (ended.status, ended.outcome["reply"]) == ("failed", "none")
    assert book.desk.read("garden").phase == "idle"


async def test_a_retry_by_a_person_has_a_new_edit_carry_out_what_failed_and_answer_again(
    book: Book, place: Workplace, prefect: None, local_aws: str
) -> None:
    name = f"again-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    await begun.edit.give_up(await begun.gather(), Unavailable("it does not build"))
    book.leases.close(begun.edit.key, State.FAILED, "it does not build", only_if_free=False)
    parameters = {"project": "garden", "generation": 1}
    async with get_client() as client:
        run = await client.create_flow_run(edit_site, parameters=parameters, state=Scheduled())
        await client.set_flow_run_state(run.id, Running(), force=True)
        await client.set_flow_run_state(run.id, Failed(), force=True)
        await client.set_flow_run_state(run.id, AwaitingRetry(message="Retry from the UI"), force=True)  # the button
        run = await client.read_flow_run(run.id)
    told = await run_flow(edit_site, flow_run=run, parameters=parameters)  # type: ignore[misc]
    assert told == {"instructions": [name], "asked": "start", "edit": "edit:garden:2"}
    waiting = book.instructions.find("garden", name)
    assert waiting is not None
    assert (waiting.status, waiting.reopened, waiting.reason) == ("waiting", 1, None)

    second = Edit(book, "garden", 2)
    second.place = place
    await second.gather()
    assert [one.message_id for one in second.gathered] == [name]
    await second.give_up(Holding(book, begun.lease), Unavailable("still not"))
    assert len(letters(local_aws, f"{name}@example.com")) == 2


async def test_who_ran_into_a_limit_hears_that_the_work_is_kept_and_a_retry_carries_it_on(
    book: Book, place: Workplace, local_aws: str
) -> None:
    name = f"long-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    holding = await begun.gather()
    begun.save("package.json", "half.html")
    await begun.edit.give_up(holding, error_of("max-turns"))
    (answer,) = letters(local_aws, f"{name}@example.com")
    assert "What was done so far is kept, but it is not on the site yet" in answer["text"]
    book.leases.fail(begun.lease, error_of("max-turns"))
    assert place.interrupted_work(book, "edit:garden:2", {"another"}) is None
    assert place.interrupted_work(book, "edit:garden:2", {name}) is not None  # who answers has it carried on
    again = book.leases.start(begun.edit.key, "edit", "person", again=True)
    assert isinstance(again, Granted)
    book.leases.finish(again.lease, State.DONE, outcome={"edit": "edit:garden:2"})
    assert place.interrupted_work(book, "edit:garden:2") is not None


async def test_work_that_was_kept_outlives_the_edits_of_others_until_its_thread_is_done(
    book: Book, place: Workplace, local_aws: str
) -> None:
    begun = Begun(book, place, said("long"))
    await begun.gather()
    begun.save("package.json", "half.html")
    book.instructions.end(said("long"), "failed", edit=begun.edit.key)
    book.leases.fail(begun.lease, error_of("budget"))
    other = book.leases.start("edit:garden:2", "edit", "other")
    assert isinstance(other, Granted)
    place.forget_interrupted_work(book, {"other"})
    book.leases.finish(other.lease, State.DONE, outcome={"commit": "abc"})
    assert place.interrupted_work(book, "edit:garden:3", {"long"}) is not None
    place.forget_interrupted_work(book, {"long"})
    assert place.repository.wips() == {}


async def test_what_was_said_of_an_edit_outlives_its_process(place: Workplace) -> None:
    repository = place.repository
    commit = repository.commit(repository.tree(repository.head()), repository.head(), "work\n")
    summary = "Opening hours changed.\n\nSundays are new."
    merged = repository.merge(commit, subject="Hours", body=summary, instructions=["one", "two"])
    assert repository.told(merged.commit) == summary


async def test_an_edit_that_takes_too_long_is_stopped_and_told_so(
    book: Book, place: Workplace, monkeypatch: pytest.MonkeyPatch, prefect_server: str, local_aws: str
) -> None:
    monkeypatch.setenv("POSTROOM_EDIT_SECONDS", "1")
    settings.cache_clear()

    async def take_long(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr("postroom.sites.studio.Studio.make", take_long)
    await site_block().save("garden", overwrite=True)
    name = f"slow-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    book.leases.hand_back(begun.lease)
    with pytest.raises(OutOfTime, match="longer than 1 s"):
        await edit_site("garden", begun.edit.generation)
    (answer,) = letters(local_aws, f"{name}@example.com")
    assert "not finished" in answer["text"]


@pytest.fixture
async def run(prefect: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """The present run, in Prefect; called, it is told to stop."""
    async with get_client() as client:
        keyed = FlowRunFilterIdempotencyKey(any_=["edit:garden:2"])  # another test's garden
        for left in await client.read_flow_runs(flow_run_filter=FlowRunFilter(idempotency_key=keyed)):
            await client.delete_flow_run(left.id)
        run = await client.create_flow_run(edit_site, parameters={"project": "garden", "generation": 1})
        await client.set_flow_run_state(run.id, Running(), force=True)
        monkeypatch.setenv("PREFECT__FLOW_RUN_ID", str(run.id))

        async def cancel() -> None:
            await runs.cancel(str(run.id))

        yield cancel


def status(book: Book, name: str) -> str:
    found = book.instructions.find("garden", name)
    assert found is not None
    return found.status


async def test_an_edit_that_is_cancelled_before_it_began_tells_everybody_and_nothing_is_done_later(
    book: Book, place: Workplace, run: Callable[[], Awaitable[None]], local_aws: str
) -> None:
    name = f"early-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    await run()
    assert await begun.edit.let_go(Holding(book, begun.lease), True) == "cancelled by operator"
    assert status(book, name) == "cancelled"
    assert len(letters(local_aws, f"{name}@example.com")) == 1
    assert book.desk.read("garden").phase == "idle"


async def test_a_mail_that_comes_after_the_cancel_is_not_cancelled_with_it(
    book: Book, place: Workplace, run: Callable[[], Awaitable[None]]
) -> None:
    begun = Begun(book, place, said("before", 1))
    await run()
    later = said("after", book.clock.now_ms() + 60_000)
    book.instructions.enter(later)
    assert book.desk.ask("garden", order=later.order).answer is Answer.ABSORB
    await begun.edit.let_go(Holding(book, begun.lease), True)
    assert (status(book, "before"), status(book, "after")) == ("cancelled", "waiting")
    desk = book.desk.read("garden")
    assert (desk.phase, desk.generation) == ("asked", 2)


async def test_a_mail_that_comes_while_a_cancelled_edit_lets_go_does_not_save_what_a_person_cancelled(
    book: Book, place: Workplace, run: Callable[[], Awaitable[None]]
) -> None:
    begun = Begun(book, place, said("unwanted", book.clock.now_ms()))
    holding = await begun.gather()
    await run()
    book.instructions.enter(later := said("after", book.clock.now_ms() + 60_000))
    asked = await ask_for_edit(book, later)
    assert asked.answer is Answer.PREEMPT
    assert await begun.edit.let_go(holding, True) == "cancelled by operator"
    assert (status(book, "unwanted"), status(book, "after")) == ("cancelled", "waiting")


async def test_an_edit_that_a_newer_mail_told_to_go_makes_way(
    book: Book, place: Workplace, run: Callable[[], Awaitable[None]]
) -> None:
    now = book.clock.now_ms()
    begun = Begun(book, place, said("one", now))
    holding = await begun.gather()
    book.leases.note_run(begun.edit.key, os.environ["PREFECT__FLOW_RUN_ID"])
    book.instructions.enter(newer := said("two", now + 1))
    assert (await ask_for_edit(book, newer)).answer is Answer.PREEMPT
    assert await begun.edit.let_go(holding, True) == "preempted by two (two)"
    assert (status(book, "one"), status(book, "two")) == ("waiting", "waiting")


async def test_what_was_said_after_the_commit_point_is_not_ended_with_an_edit_that_never_took_it_on(
    book: Book, place: Workplace, prefect: None, local_aws: str
) -> None:
    begun = Begun(book, place, said("newer", 2))
    await begun.gather()
    book.desk.commit("garden", begun.edit.generation)
    book.instructions.enter(said("older", 1, kind="publish"))  # it was a day under way
    again = Edit(book, "garden", begun.edit.generation)
    await again.gather()
    assert [one.message_id for one in again.gathered] == ["newer"]
    book.leases.close(begun.edit.key, State.FAILED, "attempts used up", only_if_free=False)
    await care.in_order(book, site_block())
    assert (status(book, "newer"), status(book, "older")) == ("failed", "waiting")
    assert book.desk.read("garden").phase == "asked"


async def test_a_pause_between_two_attempts_holds_the_edit_and_keeps_the_mail(
    book: Book, place: Workplace, prefect: None
) -> None:
    begun = Begun(book, place, said("one"))
    await begun.gather()
    book.leases.hand_back(begun.lease)
    paused = site_block()
    paused.paused = True
    await paused.save("garden", overwrite=True)
    assert (await edit_site("garden", 1))["paused"]
    await care.in_order(book, paused)
    assert book.desk.read("garden").phase == "idle"
    await care.in_order(book, site_block())
    desk = book.desk.read("garden")
    assert (desk.phase, desk.generation) == ("asked", 2)


async def test_a_pause_past_the_commit_point_does_not_keep_what_is_done_from_being_brought_to_its_end(
    book: Book, place: Workplace
) -> None:
    begun = Begun(book, place, said("one"))
    await begun.gather()
    book.desk.commit("garden", 1)
    assert not book.desk.step_back("garden", 1)
    assert book.desk.read("garden").phase == "committed"


async def test_a_site_where_something_waits_owes_an_edit_whatever_the_count_says(
    book: Book, place: Workplace, prefect: None
) -> None:
    begun = Begun(book, place, said("one"))
    await begun.gather()
    book.desk.release("garden", 1)
    assert not book.desk.read("garden").owes
    await care.in_order(book, site_block())
    assert book.desk.read("garden").phase == "asked"


async def test_an_edit_that_woke_up_late_takes_nothing_from_a_newer_one(book: Book, place: Workplace) -> None:
    one = said("one")
    book.instructions.enter(one)
    assert book.instructions.taken([one], "edit:garden:10")
    assert book.instructions.taken([one], "edit:garden:9") == []
    book.instructions.waiting_again([one], "edit:garden:9")
    assert not book.instructions.end(one, "failed", edit="edit:garden:9")
    assert book.instructions.end(one, "done", edit="edit:garden:10")


async def test_interrupted_work_from_before_the_last_edit_on_main_is_not_carried_on(
    book: Book, place: Workplace
) -> None:
    first = Begun(book, place, said("one", 1))
    await first.gather()
    first.save("package.json", "carried-on.html")
    book.leases.close(first.edit.key, State.CANCELLED, "preempted by two (two)", only_if_free=False)
    second = book.leases.start("edit:garden:2", "edit", "two")
    assert isinstance(second, Granted)
    assert place.interrupted_work(book, "edit:garden:2") is not None
    book.leases.finish(second.lease, State.DONE, outcome={"commit": "abc"})  # and died before it forgot
    assert place.interrupted_work(book, "edit:garden:3") is None


async def test_an_attempt_that_finds_all_of_it_done_forgets_the_interrupted_work(
    book: Book, place: Workplace, prefect_server: str
) -> None:
    begun = Begun(book, place, said("one", 1))
    await begun.gather()
    begun.save("package.json", "carried-on.html")
    begun.merge("one")
    book.instructions.end(said("one", 1), "done", edit=begun.edit.key)
    book.leases.hand_back(begun.lease)
    await site_block().save("garden", overwrite=True)
    assert await edit_site("garden", 1) == {"instructions": []}
    assert place.repository.wips() == {}


async def test_a_newer_edit_does_not_wait_for_one_that_only_waits_for_its_next_attempt(
    book: Book, place: Workplace, run: Callable[[], Awaitable[None]]
) -> None:
    begun = Begun(book, place, said("one", 1))
    await begun.gather()
    run_id = os.environ["PREFECT__FLOW_RUN_ID"]
    book.leases.note_run(begun.edit.key, run_id)
    book.leases.put_off(begun.lease, book.clock.now_ms() + 3_600_000, "come back in an hour")
    newer = said("two", book.clock.now_ms())
    book.instructions.enter(newer)
    assert book.desk.ask("garden", order=newer.order, by="two", subject="two").answer is Answer.PREEMPT
    async with asyncio.timeout(20):
        await wait_for_predecessor(book, "garden", 2)
    row = book.leases.read(begun.edit.key)
    assert (row.state, row.reason) == (State.CANCELLED, "overtaken by a newer edit")
    async with get_client() as client:
        await client.set_flow_run_state(uuid.UUID(run_id), Failed(), force=True)
        async with asyncio.timeout(20):
            while book.desk.read("garden").unnamed:
                await care.in_order(book, site_block())  # should the newer edit be gone already
        state = (await client.read_flow_run(uuid.UUID(run_id))).state
    assert state is not None
    assert (state.name, state.message) == ("Preempted", "by two (two)")


async def test_what_can_not_be_shown_costs_no_attempt(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(**_: object) -> None:
        raise Unavailable("Prefect does not answer")

    monkeypatch.setattr(show, "acreate_table_artifact", away)
    await show.history(book, "garden")


async def test_who_was_told_that_it_failed_hears_so_when_it_is_done_after_all(
    book: Book, place: Workplace, local_aws: str
) -> None:
    name = f"after-{uuid.uuid4().hex[:6]}"
    one = said(name)
    book.instructions.enter(one)

    def die(*_: object, **__: object) -> bool:
        raise Unavailable("killed between the answer and the book")

    with pytest.MonkeyPatch.context() as killing, pytest.raises(Unavailable):
        killing.setattr(book.instructions, "end", die)
        await answering.failed(book, "edit:garden:1", [one], Unavailable("it does not build"))
    for _ in range(2):  # once more changes nothing
        await answering.done(book, "edit:garden:1", [one], answering.Told("The hours are new."))
    wrong, right = letters(local_aws, f"{name}@example.com")
    assert "could not be carried out" in wrong["text"]
    assert answering.AFTER_ALL in right["text"].replace("\n", " ")
    assert status(book, name) == "done"


async def test_one_answer_goes_to_each_thread_and_names_what_was_done_with_it(
    book: Book, place: Workplace, local_aws: str
) -> None:
    sender = f"{uuid.uuid4().hex[:6]}@example.com"
    first, second = (
        said("first", 1, thread_id="hours", sender=sender),
        said("second", 2, thread_id="hours", sender=sender),
    )
    other = said("other", 3, sender=f"other-{sender}")
    for one in (first, second, other):
        book.instructions.enter(one)
    await answering.done(book, "edit:garden:1", [first, second, other], answering.Told("All done."))
    (answer,) = letters(local_aws, sender)
    assert "first" in answer["text"]
    assert len(letters(local_aws, f"other-{sender}")) == 1
    ended = book.instructions.find("garden", "first")
    assert ended is not None
    assert ended.outcome["absorbed_by"] == "second"


async def test_a_stuck_agent_is_tried_once_more_and_then_the_sender_hears_that_it_failed(
    book: Book, place: Workplace, monkeypatch: pytest.MonkeyPatch, prefect_server: str, local_aws: str
) -> None:
    tries = 0

    async def stick(*_: object, **__: object) -> None:
        nonlocal tries
        tries += 1
        raise TimedOut("no word, no tool for a minute")

    monkeypatch.setattr("postroom.sites.studio.Studio.make", stick)
    monkeypatch.setattr("postroom.ledger.leases.RETRY_DELAY_MS", 10)
    await site_block().save("garden", overwrite=True)
    name = f"stuck-{uuid.uuid4().hex[:6]}"
    begun = Begun(book, place, said(name))
    book.leases.fail(begun.lease, Unavailable("a server was away"))  # such an attempt is not a stuck agent
    with pytest.raises(TimedOut):
        await edit_site("garden", 1)
    assert (tries, letters(local_aws, f"{name}@example.com")) == (1, [])
    with pytest.raises(LimitReached, match="twice in a row"):
        await edit_site("garden", 1)
    assert (tries, status(book, name)) == (2, "failed")
    assert len(letters(local_aws, f"{name}@example.com")) == 1


async def test_an_edit_that_has_to_make_way_lets_go_promptly_and_keeps_its_work(
    book: Book, place: Workplace, monkeypatch: pytest.MonkeyPatch, prefect: None
) -> None:
    at_work = asyncio.Event()

    async def think(studio: Studio, *_: object, **__: object) -> None:
        studio._workspace = Workspace(studio.repository, studio.root / "site", studio.repository.head())
        (studio.root / "site" / "half.html").write_text("half of it")
        at_work.set()
        await asyncio.sleep(600)

    monkeypatch.setattr(Studio, "make", think)
    await site_block().save("garden", overwrite=True)
    now = book.clock.now_ms()
    begun = Begun(book, place, said("one", now))
    book.leases.hand_back(begun.lease)
    running = asyncio.create_task(edit_site("garden", 1))
    async with asyncio.timeout(60):
        await at_work.wait()
    newer = said("two", now + 1)
    book.instructions.enter(newer)
    assert (await ask_for_edit(book, newer)).answer is Answer.PREEMPT
    async with asyncio.timeout(30):  # five seconds where the machine is not crowded
        with pytest.raises(LeaseLost):
            await running
    row = book.leases.read("edit:garden:1")
    assert (row.state, row.reason) == (State.CANCELLED, "preempted by two (two)")
    wip = place.interrupted_work(book, "edit:garden:2")
    assert wip is not None
    assert "half.html" in place.repository.tree(wip)
    assert not list(place.places.work("edit").parent.glob("edit-garden-*"))
