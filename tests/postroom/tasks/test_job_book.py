"""Jobs in the book, on the real local AWS."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from postroom.aws.names import Names
from postroom.errors import BadInput, Missing
from postroom.ledger import Book, Granted, State, Work
from postroom.ledger.book import new_holder
from postroom.settings import load
from postroom.tasks.job_book import Job, Jobs
from postroom.tasks.job_plan import Plan, read_plan, read_steps
from postroom.tasks.job_state import Stands


def task(task_id: str, *wants: str, **more: Any) -> dict[str, Any]:
    return {"id": task_id, "prompt": "do it", "dependsOn": list(wants), **more}


def plan(*tasks: dict[str, Any], job_id: str = "j1") -> Plan:
    return read_plan({"name": "a job", "tasks": list(tasks)}, job_id=job_id)


@pytest.fixture
def book(provisioned: Names) -> Book:
    return Book(load(prefix=provisioned.prefix, promise_seconds=2))


def end(book: Book, job: Job, task_id: str, state: State = State.DONE) -> None:
    """Plays the task's run."""
    key = job.key_of(task_id)
    book.leases.enter(key, "task", Work("agent-task"))
    started = book.leases.start(key, "task", new_holder())
    assert isinstance(started, Granted)
    book.leases.finish(started.lease, state, reason=None if state is State.DONE else f"{task_id} is torn")


def told(book: Book, job_id: str = "j1") -> list[str]:
    return [event.event_type for event in book.events.of_entity(f"JOB#{job_id}")]


def test_the_same_job_twice_is_one_and_another_of_its_name_is_refused(book: Book) -> None:
    jobs = Jobs(book)
    assert jobs.create(plan(task("a")))
    assert not jobs.create(plan(task("a")))
    with pytest.raises(BadInput, match="another job 'j1'"):
        jobs.create(plan(task("b")))
    assert told(book) == ["Job Created"]
    assert list(jobs.open()) == ["j1"]


def test_a_job_that_nobody_knows_is_missing(book: Book) -> None:
    with pytest.raises(Missing, match="no job 'nowhere'"):
        Jobs(book).read("nowhere")


def test_it_ends_once_however_many_see_it(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    job = jobs.read("j1")
    assert not jobs.finish(job, jobs.standing(job)), "nothing is done yet"
    end(book, job, "a")
    seen = jobs.standing(job)
    with ThreadPoolExecutor(8) as threads:
        ended = list(threads.map(lambda _: Jobs(book).finish(job, seen), range(8)))
    assert sum(ended) == 1
    assert told(book) == ["Job Created", "Job Completed"]
    assert jobs.read("j1").state is State.DONE
    assert list(jobs.open()) == []


def test_a_failure_is_told_once_and_resume_runs_only_what_is_missing(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a"), task("bad"), task("c", "bad"), task("d", "a")))
    job = jobs.read("j1")
    end(book, job, "a")
    end(book, job, "bad", State.FAILED)
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(lambda _: Jobs(book).tell_failure(job, jobs.standing(job)), range(8))) == 1
    end(book, job, "d")
    assert jobs.finish(jobs.read("j1"), jobs.standing(job))
    assert jobs.read("j1").reason == "failed: bad"

    job, again = jobs.resume("j1")
    assert again == ["bad"]
    seen = jobs.standing(job)
    assert (seen.tasks["a"], seen.tasks["d"]) == (Stands.COMPLETED, Stands.COMPLETED)
    assert (seen.tasks["bad"], seen.tasks["c"]) == (Stands.READY, Stands.WAITING)
    assert job.key_of("bad").endswith(":r1")
    assert list(jobs.open()) == ["j1"]
    end(book, job, "bad")
    end(book, job, "c")
    assert jobs.finish(job, jobs.standing(job))
    assert told(book) == ["Job Created", "Job Failure Detected", "Job Completed", "Job Resumed", "Job Completed"]
    assert jobs.resume("j1")[1] == []


def test_a_job_whose_step_was_cancelled_asks_for_another_when_it_is_resumed(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    job = jobs.read("j1")
    asked = job.step_key(jobs.standing(job))
    job, again = jobs.resume("j1")
    assert again == []
    assert job.step_key(jobs.standing(job)) != asked
    end(book, job, "a")
    assert jobs.finish(job, jobs.standing(job))
    assert jobs.resume("j1")[0].rounds == job.rounds, "done is done"


def test_a_job_that_is_given_up_raises_the_alarm_unless_it_was_raised(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    assert jobs.give_up(jobs.read("j1"), "its step failed 20 times")
    assert not jobs.give_up(jobs.read("j1"), "again")
    assert told(book) == ["Job Created", "Job Failure Detected", "Job Completed"]
    jobs.resume("j1")
    job = jobs.read("j1")
    end(book, job, "a", State.FAILED)
    jobs.tell_failure(job, jobs.standing(job))
    jobs.give_up(jobs.read("j1"), "its step failed 20 times")
    assert told(book)[3:] == ["Job Resumed", "Job Failure Detected", "Job Completed"]


def test_a_second_failure_after_a_resume_is_told_again(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    for _ in range(2):
        job = jobs.read("j1")
        end(book, job, "a", State.FAILED)
        assert jobs.tell_failure(job, jobs.standing(job))
        assert not jobs.tell_failure(jobs.read("j1"), jobs.standing(job))
        jobs.resume("j1")
    assert jobs.read("j1").key_of("a").endswith(":r2")


def test_a_job_can_not_end_while_a_task_is_added(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    job = jobs.read("j1")
    end(book, job, "a")
    seen = jobs.standing(job)
    assert [step.id for step in jobs.add("j1", read_steps([task("b", "a")])).steps] == ["a", "b"]
    assert not jobs.finish(job, seen), "what was seen is old"
    assert jobs.standing(jobs.read("j1")).tasks["b"] is Stands.READY
    jobs.add("j1", read_steps([task("b", "a")]))  # said twice: no second event
    assert told(book) == ["Job Created", "Job Tasks Added"]


def test_what_is_added_is_checked_against_the_whole_and_an_ended_job_takes_nothing(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    for wrong in (task("a", prompt="other"), task("b", "nobody")):
        with pytest.raises(BadInput):
            jobs.add("j1", read_steps([wrong]))
    with pytest.raises(BadInput, match="51 are too many"):
        jobs.add("j1", read_steps([task(f"t{n}") for n in range(50)]))
    job = jobs.read("j1")
    end(book, job, "a")
    jobs.finish(job, jobs.standing(job))
    with pytest.raises(BadInput, match="has ended"):
        jobs.add("j1", read_steps([task("b")]))
    assert [step.id for step in jobs.read("j1").plan.steps] == ["a"]


def test_many_add_at_once_and_nothing_is_lost(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(task("a")))
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda n: Jobs(book).add("j1", read_steps([task(f"t{n}", "a")])), range(12)))
    assert {step.id for step in jobs.read("j1").plan.steps} == {"a", *(f"t{n}" for n in range(12))}
    assert told(book).count("Job Tasks Added") == 12


def test_whoever_sees_the_same_asks_for_the_same_step_and_not_more_at_once_than_there_are_places(book: Book) -> None:
    jobs = Jobs(book)
    jobs.create(plan(*(task(f"t{n}") for n in range(9))))
    job = jobs.read("j1")
    seen = jobs.standing(job)
    assert job.step_key(seen) == jobs.read("j1").step_key(jobs.standing(jobs.read("j1")))
    assert job.next_tasks(seen, 6) == [f"t{n}" for n in range(6)]
    for each in job.next_tasks(seen, 6):
        book.leases.enter(job.key_of(each), "task", Work("agent-task"))
    later = jobs.standing(job)
    assert not job.owes(later, 6)
    assert job.step_key(later) != job.step_key(seen)
    end(book, job, "t0")
    assert job.next_tasks(jobs.standing(job), 6) == ["t6"]


def test_a_submission_too_large_for_the_book_is_refused(book: Book) -> None:
    with pytest.raises(BadInput, match="at most 262144"):
        Jobs(book).create(plan(*(task(f"t{n}", input={"x": "y" * 30_000}) for n in range(10))))
    assert Jobs(book).find("j1") is None
