"""The site's desk: start, absorb, preempt; and no lost wake-up."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from postroom.errors import LeaseLost
from postroom.ledger import Book
from postroom.ledger.desk import Answer
from postroom.ledger.instructions import Instruction, alike


@pytest.fixture
def project() -> str:
    return f"garden-{uuid.uuid4().hex[:8]}"


def said(project: str, at: int, name: str = "") -> Instruction:
    message_id = name or f"m{at}"
    return Instruction(project, message_id, "owner", "t1", at, "owner@example.com", "Hours", "Open at nine")


def editing(book: Book, project: str, *instructions: Instruction) -> int:
    for instruction in instructions:
        book.instructions.enter(instruction)
    asked = book.desk.ask(project, order=instructions[-1].order)
    row = book.desk.read(project)
    book.desk.begin(project, asked.generation, gathered_seq=row.latest_seq, newest=instructions[-1].order)
    return asked.generation


def test_the_first_instruction_starts_an_edit_and_the_next_is_absorbed_before_it_begins(
    book: Book, project: str
) -> None:
    first = book.desk.ask(project, order=said(project, 1).order)
    second = book.desk.ask(project, order=said(project, 2).order)
    assert (first.answer, second.answer) == (Answer.START, Answer.ABSORB)
    assert first.edit_key == second.edit_key == f"edit:{project}:1"


def test_a_newer_instruction_preempts_a_running_edit(book: Book, project: str) -> None:
    generation = editing(book, project, said(project, 1))
    asked = book.desk.ask(project, order=said(project, 2).order, by="m2", subject="Hours again")
    assert asked.answer is Answer.PREEMPT
    assert asked.preempted == f"edit:{project}:{generation}"
    assert book.desk.read(project).preempting == {"generation": generation, "by": "m2", "subject": "Hours again"}
    with pytest.raises(LeaseLost):
        book.desk.commit(project, generation)


def test_an_attempt_that_wakes_up_after_its_edit_has_ended_changes_nothing(book: Book, project: str) -> None:
    generation = editing(book, project, said(project, 1))
    book.desk.commit(project, generation)
    book.desk.release(project, generation)
    before = book.desk.read(project)
    with pytest.raises(LeaseLost):
        book.desk.commit(project, generation)
    with pytest.raises(LeaseLost):
        book.desk.begin(project, generation, gathered_seq=1, newest="")
    assert book.desk.read(project) == before


def test_an_instruction_received_earlier_than_what_runs_is_absorbed(book: Book, project: str) -> None:
    editing(book, project, said(project, 50))
    assert book.desk.ask(project, order=said(project, 49).order).answer is Answer.ABSORB


def test_past_its_commit_point_an_edit_is_not_preempted(book: Book, project: str) -> None:
    generation = editing(book, project, said(project, 1))
    book.desk.commit(project, generation)
    assert book.desk.ask(project, order=said(project, 2).order).answer is Answer.ABSORB


def test_a_starving_site_absorbs_instead(book: Book, project: str) -> None:
    editing(book, project, said(project, 1))
    for at in (2, 3, 4):
        asked = book.desk.ask(project, order=said(project, at).order)
        assert asked.answer is Answer.PREEMPT
        book.desk.begin(project, asked.generation, gathered_seq=0, newest=said(project, at).order)
    assert book.desk.ask(project, order=said(project, 5).order).answer is Answer.ABSORB


def test_a_long_wait_absorbs_instead(book: Book, project: str) -> None:
    editing(book, project, said(project, 1))
    long_ago = book.clock.now_ms() - 16 * 60_000
    asked = book.desk.ask(project, order=said(project, 2).order, oldest_waiting_at=long_ago)
    assert asked.answer is Answer.ABSORB


def test_release_asks_for_another_edit_when_more_was_said(book: Book, project: str) -> None:
    generation = editing(book, project, said(project, 1))
    book.desk.commit(project, generation)
    book.instructions.enter(said(project, 2))
    following = book.desk.release(project, generation)
    assert following is not None
    assert following.generation == generation + 1
    row = book.desk.read(project)
    book.desk.begin(project, following.generation, gathered_seq=row.latest_seq, newest="z")
    assert book.desk.release(project, following.generation) is None
    assert book.desk.read(project).phase == "idle"


def test_a_site_owes_an_edit_from_the_moment_an_instruction_is_entered(book: Book, project: str) -> None:
    assert not book.desk.read(project).owes
    book.instructions.enter(said(project, 1))
    assert book.desk.read(project).owes


def test_twenty_newcomers_at_once_start_one_edit(book: Book, project: str) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda at: book.desk.ask(project, order=said(project, at).order), range(20)))
    assert [a.answer for a in answers].count(Answer.START) == 1
    assert {a.generation for a in answers} == {1}


def test_entering_an_instruction_twice_keeps_one_and_raises_the_count_once(book: Book, project: str) -> None:
    assert book.instructions.enter(said(project, 1))
    assert not book.instructions.enter(said(project, 1))
    assert book.desk.read(project).latest_seq == 1


def test_unfinished_instructions_come_oldest_first_and_ended_ones_do_not(book: Book, project: str) -> None:
    for at in (30, 10, 20):
        book.instructions.enter(said(project, at))
    ten = book.instructions.find(project, "m10")
    assert ten is not None
    assert book.instructions.end(ten, "done", edit="edit:x:1", outcome={"commit": "abc"})
    assert not book.instructions.end(ten, "failed")
    assert [i.message_id for i in book.instructions.unfinished(project)] == ["m20", "m30"]
    assert [i.status for i in book.instructions.of_project(project)] == ["done", "waiting", "waiting"]


def test_a_mail_that_the_next_edit_would_not_take_on_stops_nobody(book: Book, project: str) -> None:
    editing(book, project, said(project, 1))
    assert book.desk.ask(project, order=said(project, 2).order, is_next=False).answer is Answer.ABSORB
    assert book.desk.ask(project, order=said(project, 2).order).answer is Answer.PREEMPT


def test_what_one_edit_takes_on_is_alike(project: str) -> None:
    waiting = [said(project, 1), said(project, 2), replace(said(project, 3), kind="publish"), said(project, 4)]
    assert [one.message_id for one in alike(waiting)] == ["m1", "m2"]
    assert alike([]) == []


def test_an_edit_that_made_way_is_remembered_until_it_is_shown_as_such(book: Book, project: str) -> None:
    generation = editing(book, project, said(project, 1))
    book.desk.ask(project, order=said(project, 2).order, by="m2", subject="Hours again")
    book.desk.begin(project, generation + 1, gathered_seq=1, newest=said(project, 2).order)
    book.desk.release(project, generation + 1)
    assert book.desk.read(project).unnamed == {str(generation): {"by": "m2", "subject": "Hours again"}}
    for _ in range(2):
        book.desk.named(project, generation)
        assert book.desk.read(project).unnamed == {}


def test_a_stuck_agent_is_known_by_the_edit_not_by_its_attempts(book: Book, project: str) -> None:
    assert not book.desk.was_stuck(project, 1)
    assert book.desk.was_stuck(project, 1)
    assert not book.desk.was_stuck(project, 2)
