"""Leases, rule by rule."""

import uuid

import pytest

from postroom.errors import BadInput, LeaseLost, Missing, PostroomError, RateLimited, Unavailable
from postroom.ledger import Book, Busy, Ended, Event, Exhausted, Granted, Lease, State, Work
from postroom.ledger.book import new_holder


@pytest.fixture
def key() -> str:
    return f"task:{uuid.uuid4().hex}"


def taken(book: Book, key: str) -> Lease:
    answer = book.leases.start(key, "task", new_holder())
    assert isinstance(answer, Granted)
    return answer.lease


def told(book: Book, key: str) -> list[str]:
    return [event.event_type for event in book.events.of_entity(key)]


def event(key: str, what: str) -> Event:
    return Event(what, key, "task")


def test_entering_twice_gives_the_same_row_and_one_event(book: Book, key: str) -> None:
    work = Work("agent-task", {"deep": {"list": [1, 2.5, None]}}, ("job:task",))
    first, created = book.leases.enter(key, "task", work, event=event(key, "Task Pending"))
    second, created_again = book.leases.enter(key, "task", work, event=event(key, "Task Pending"))
    assert (created, created_again) == (True, False)
    assert first == second
    assert second.work == work
    assert told(book, key) == ["Task Pending"]


def test_a_second_starter_is_told_who_works(book: Book, key: str) -> None:
    lease = taken(book, key)
    answer = book.leases.start(key, "task", new_holder())
    assert isinstance(answer, Busy)
    assert answer.row.holder == lease.holder


def test_the_same_holder_starting_again_counts_once(book: Book, key: str) -> None:
    holder = new_holder()
    first = book.leases.start(key, "task", holder)
    second = book.leases.start(key, "task", holder)
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert second.lease.fence == first.lease.fence
    assert book.leases.read(key).attempts == 1


def test_done_work_is_reported_not_repeated(book: Book, key: str) -> None:
    book.leases.finish(taken(book, key), State.DONE, outcome={"page": "/hours"})
    answer = book.leases.start(key, "task", new_holder())
    assert isinstance(answer, Ended)
    assert answer.row.outcome == {"page": "/hours"}


def test_finishing_twice_with_a_lost_answer_is_the_same_end(book: Book, key: str) -> None:
    lease = taken(book, key)
    assert book.leases.finish(lease, State.DONE).state is State.DONE
    assert book.leases.finish(lease, State.DONE).state is State.DONE
    with pytest.raises(LeaseLost):
        book.leases.finish(lease, State.FAILED)


def test_a_transient_failure_waits_and_a_third_one_ends_it(book: Book, key: str) -> None:
    for attempt in (1, 2):
        row = book.leases.fail(taken(book, key), Unavailable("away"), delay_ms=0)
        assert (row.state, row.attempts) == (State.WAITING, attempt)
    assert book.leases.fail(taken(book, key), Unavailable("away"), delay_ms=0).state is State.FAILED


def test_bad_input_is_never_retried(book: Book, key: str) -> None:
    row = book.leases.fail(taken(book, key), BadInput("no title"))
    assert row.state is State.FAILED
    assert row.reason == "no title"
    assert row.attempts == 1


def test_a_rate_limit_is_waited_for(book: Book, key: str) -> None:
    before = book.clock.now_ms()
    row = book.leases.fail(taken(book, key), RateLimited("slow down", retry_after=90))
    assert row.effective_until >= before + 90_000
    assert isinstance(book.leases.start(key, "task", new_holder()), Busy)


def test_handing_back_does_not_count_as_an_attempt(book: Book, key: str) -> None:
    for _ in range(5):
        book.leases.hand_back(taken(book, key))
    assert book.leases.read(key).attempts == 0


def test_attempts_used_up_by_dying_are_exhausted_and_then_closed(book: Book, key: str) -> None:
    for _ in range(3):
        lease = taken(book, key)
        book.dynamodb.update_item(  # its time is over: the holder died
            TableName=book.names.leases,
            Key={"key": {"S": key}},
            UpdateExpression="SET effective_until = :past",
            ExpressionAttributeValues={":past": {"N": "1"}},
        )
    answer = book.leases.start(key, "task", new_holder())
    assert isinstance(answer, Exhausted)
    assert answer.row.category == "died"
    ended = event(key, "Task Failed")
    closed = book.leases.close(key, State.FAILED, "attempts used up", event=ended, category=answer.row.category)
    assert (closed.state, closed.outcome) == (State.FAILED, {"category": "died"})
    assert closed.fence > lease.fence
    assert told(book, key) == ["Task Failed"]


def test_what_is_given_up_says_what_its_last_attempt_ended_with(book: Book, key: str) -> None:
    book.leases.fail(taken(book, key), Unavailable("away"), delay_ms=0)
    book.leases.fail(taken(book, key), RateLimited("slow down"), delay_ms=0)
    taken(book, key)  # and dies
    row = book.leases.read(key)
    assert (row.category, row.outcome, row.reason) == ("rate-limit", {"category": "rate-limit"}, "slow down")


def test_what_was_done_after_a_failure_says_nothing_of_it(book: Book, key: str) -> None:
    book.leases.fail(taken(book, key), Unavailable("away"), delay_ms=0)
    row = book.leases.finish(taken(book, key), State.DONE, outcome={"page": "/hours"})
    assert (row.outcome, row.reason) == ({"page": "/hours"}, None)


def test_a_failure_leaves_what_the_body_has_written_down_as_its_outcome(book: Book, key: str) -> None:
    lease = taken(book, key)
    book.dynamodb.update_item(  # as the mail's flow does when the instruction is in the book
        TableName=book.names.leases,
        Key={"key": {"S": key}},
        UpdateExpression="SET outcome = :so_far",
        ExpressionAttributeValues={":so_far": {"M": {"instruction": {"S": "it"}}}},
    )
    book.leases.fail(lease, Unavailable("away"))
    closed = book.leases.close(key, State.FAILED, "given up", only_if_free=False, category="died")
    assert closed.outcome == {"category": "died", "instruction": "it"}


def test_closing_leaves_work_that_somebody_holds(book: Book, key: str) -> None:
    taken(book, key)
    assert book.leases.close(key, State.CANCELLED, "by hand").state is State.WORKING


def test_a_person_may_try_failed_work_again_with_the_attempts_that_are_left(book: Book, key: str) -> None:
    book.leases.fail(taken(book, key), BadInput("no title"))
    assert isinstance(book.leases.start(key, "task", new_holder()), Ended)
    again = book.leases.start(key, "task", new_holder(), again=True)
    assert isinstance(again, Granted)
    assert (again.lease.row.attempts, again.lease.row.max_attempts) == (2, 3)


def test_a_person_gives_work_whose_attempts_are_used_up_one_more(book: Book, key: str) -> None:
    for _ in range(3):
        book.leases.fail(taken(book, key), Unavailable("away"), delay_ms=0)
    again = book.leases.start(key, "task", new_holder(), again=True)
    assert isinstance(again, Granted)
    assert again.lease.row.exhausted
    assert book.leases.fail(again.lease, Unavailable("away")).state is State.FAILED


def test_what_was_put_off_begins_at_once_when_a_person_says_so(book: Book, key: str) -> None:
    book.leases.put_off(taken(book, key), book.clock.now_ms() + 3_600_000, "the model is busy")
    assert isinstance(book.leases.start(key, "task", new_holder()), Busy)
    assert isinstance(book.leases.start(key, "task", new_holder(), again=True), Granted)


def test_nobody_takes_work_from_a_holder_that_is_alive(book: Book, key: str) -> None:
    lease = taken(book, key)
    assert isinstance(book.leases.start(key, "task", new_holder(), again=True), Busy)
    book.leases.finish(lease, State.DONE)
    assert isinstance(book.leases.start(key, "task", new_holder(), again=True), Ended)


def test_who_asks_once_more_for_the_same_run_does_not_count(book: Book, key: str) -> None:
    book.leases.enter(key, "task", None)
    for _ in range(3):  # the message came twice, and two sensors looked
        assert book.leases.note_run(key, "first")
    assert book.leases.read(key).asked == 1
    assert book.leases.note_run(key, "first", anew=True)
    assert book.leases.note_run(key, "second")
    assert book.leases.note_run(key, None)
    assert (book.leases.read(key).run_id, book.leases.read(key).asked) == ("second", 4)
    book.leases.close(key, State.CANCELLED, "by hand")
    assert not book.leases.note_run(key, "second")


def test_a_replay_gets_a_key_of_its_own(book: Book, key: str) -> None:
    with pytest.raises(Missing):
        book.leases.replay(key)
    lease = taken(book, key)
    with pytest.raises(PostroomError, match="not finished"):
        book.leases.replay(key)
    book.leases.finish(lease, State.DONE)
    assert [book.leases.replay(key), book.leases.replay(key)] == [f"{key}:r1", f"{key}:r2"]


def test_only_unpaid_rows_are_candidates_for_the_sweeper(book: Book) -> None:
    job = f"job-{uuid.uuid4().hex[:6]}"
    waiting, working, done = (f"{job}:{n}" for n in ("waiting", "working", "done"))
    book.leases.enter(waiting, job, None)
    book.leases.start(working, job, new_holder())
    ended = book.leases.start(done, job, new_holder())
    assert isinstance(ended, Granted)
    book.leases.finish(ended.lease, State.DONE)
    assert [row.key for row in book.leases.unpaid(job)] == [waiting]


def test_rows_are_found_many_at_a_time(book: Book) -> None:
    keys = [f"task:many-{uuid.uuid4().hex}" for _ in range(130)]
    for key in keys[:120]:
        book.leases.enter(key, "task", None)
    assert set(book.leases.find_many(keys)) == set(keys[:120])


def test_events_are_told_to_the_bus_and_not_again(book: Book, key: str) -> None:
    book.events.tell()
    book.leases.enter(key, "task", None, event=event(key, "Task Pending"))
    assert book.events.tell() == 1
    assert book.events.tell() == 0
    assert told(book, key) == ["Task Pending"]


def test_large_properties_overflow_to_s3_and_are_pointed_at(book: Book, key: str) -> None:
    stamped = book.events.append(Event("Task Completed", key, "task", {"text": "x" * 300_000}))
    [read] = book.events.of_entity(key)
    assert read.event_id == stamped.event_id
    assert str(read.properties["overflow"]).startswith(f"s3://{book.names.tasks_bucket}/events/")
