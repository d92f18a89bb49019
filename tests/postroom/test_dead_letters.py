"""Dead letters on the real local AWS: nothing is lost, and nothing is told twice."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.aws.queues import find_queue
from postroom.dead_letters.letter import DeadLetter, read_letter
from postroom.dead_letters.register import Register
from postroom.errors import BadInput, Missing
from postroom.ledger import Book, Event, Granted, State
from postroom.ledger.book import new_holder
from postroom.settings import load
from workers import unpack
from workers.orders import Message


@pytest.fixture
def book(provisioned: Names) -> Book:
    return Book(load(prefix=provisioned.prefix))


def bury(queue: str, body: str, /, **attributes: str) -> str:
    """A letter as the sensor leaves it; its id."""
    typed = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    url = find_queue(Names.dead_letters(queue))
    return str(client("sqs").send_message(QueueUrl=url, MessageBody=body, MessageAttributes=typed)["MessageId"])


def died(queue: str, request_id: str = "r1", **more: str) -> str:
    body = json.dumps({"requestId": request_id, "name": "sum", "prompt": "add"})
    said = {"reason": "the model said no", "category": "auth", "key": f"task:{request_id}", "receives": "3"}
    return bury(queue, body, **{**said, "queue": queue, "requestId": request_id, **more})


def take(queue: str) -> list[dict[str, Any]]:
    """What waits in a queue."""
    answer = client("sqs").receive_message(
        QueueUrl=find_queue(queue), MaxNumberOfMessages=10, WaitTimeSeconds=0, MessageAttributeNames=["All"]
    )
    return list(answer.get("Messages", []))


def told(book: Book, entity: str) -> list[str]:
    return [event.event_type for event in book.events.of_entity(entity)]


def test_each_letter_becomes_one_event_with_its_reason_and_stays_in_its_queue(book: Book) -> None:
    letter_id = died(book.names.tasks_queue)
    register = Register(book)
    assert [letter.id for letter in register.gather()] == [letter_id]
    assert register.gather() == []
    event = book.events.of_entity("TASK#r1")[0]
    assert event.event_type == "Task Failed"
    assert event.properties["reason"] == "the model said no"
    assert (event.properties["receives"], event.properties["category"]) == (3, "auth")
    assert told(book, "TASK#r1") == ["Task Failed"]
    assert len(take(Names.dead_letters(book.names.tasks_queue))) == 1
    assert [letter.id for letter in register.listed()] == [letter_id]


def test_the_end_of_a_task_is_not_told_again_by_its_letter(book: Book) -> None:
    started = book.leases.start("task:r1", "task", new_holder())
    assert isinstance(started, Granted)
    ended = Event("Task Timeout", "TASK#r1", "task")
    book.leases.finish(started.lease, State.FAILED, reason="the model said no", event=ended)
    died(book.names.tasks_queue)
    book.events.append(Event("Task Failed", "TASK#invalid-m1", "task", {"error": "no JSON"}))
    bury(book.names.tasks_queue, "{", reason="no JSON", message="m1")
    assert len(Register(book).gather()) == 2
    assert told(book, "TASK#r1") == ["Task Timeout", "Dead Letter Listed"]
    assert told(book, "TASK#invalid-m1") == ["Task Failed", "Dead Letter Listed"]
    assert book.events.of_entity("TASK#r1")[-1].properties["receives"] == 3


def test_many_who_look_at_once_tell_of_each_letter_once(book: Book) -> None:
    for n in range(12):
        died(book.names.tasks_queue, f"r{n}")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: len(Register(book).gather()), range(4)))
    Register(book).gather()
    assert sum(found) <= 12
    assert len(Register(book).listed()) == 12
    assert all(told(book, f"TASK#r{n}") == ["Task Failed"] for n in range(12))


def test_a_letter_that_was_refused_does_not_end_the_task_that_it_happens_to_name(book: Book) -> None:
    """The body says xyz, the attribute abc: the sensor wrote it down as invalid, and neither has failed."""
    book.events.append(Event("Task Failed", "TASK#invalid-m9", "task", {"error": "requestId differs"}))
    letter_id = bury(
        book.names.tasks_queue, '{"requestId": "xyz"}', reason="requestId differs", message="m9", requestId="abc"
    )
    given_up = bury(book.names.tasks_queue, '{"requestId": "xyz"}', requestId="abc")  # SQS was quicker than the sensor
    Register(book).gather()
    assert (told(book, "TASK#abc"), told(book, "TASK#xyz")) == ([], [])
    assert told(book, "TASK#invalid-m9") == ["Task Failed", "Dead Letter Listed"]
    assert told(book, f"TASK#invalid-{given_up}") == ["Task Failed"]
    Register(book).dismiss(letter_id)
    assert told(book, "TASK#invalid-m9")[-1] == "Dead Letter Dismissed"


@pytest.mark.parametrize("done", [True, False])
def test_a_task_in_the_book_is_not_ended_by_a_message_that_sqs_gave_up(book: Book, done: bool) -> None:
    started = book.leases.start("task:x9", "task", new_holder())
    assert isinstance(started, Granted)
    if done:
        book.leases.finish(started.lease, State.DONE)
    bury(book.names.tasks_queue, '{"requestId": "x9"}')
    Register(book).gather()
    assert told(book, "TASK#x9") == ["Dead Letter Listed"]


@pytest.mark.parametrize(
    ("queue", "body", "attributes", "entity"),
    [
        ("tasks", "not json", {"reason": "the body is no JSON"}, None),
        ("tasks", "not json", {"reason": "no JSON", "message": "m-1"}, "TASK#invalid-m-1"),
        ("tasks", '{"requestId": "x9"}', {}, "TASK#x9"),
        ("tasks", '{"requestId": "../../etc"}', {}, None),
        ("mail", '{"Records": [{"s3": {"object": {"key": "incoming/m+1"}}}]}', {}, "MAIL#m 1"),
        ("mail", "[]", {"reason": "torn", "key": "email:m2:r3"}, "MAIL#m2"),
        ("ses-events", "{}", {"reason": "torn"}, None),
    ],
)
def test_every_kind_of_letter_names_whom_it_is_about(
    book: Book, queue: str, body: str, attributes: dict[str, str], entity: str | None
) -> None:
    queue = f"{book.names.prefix}-{queue}"
    letter_id = bury(queue, body, **attributes)
    [letter] = Register(book).gather()
    job = letter.job
    assert letter.entity == (entity or f"{job.upper()}#invalid-{letter_id}")
    [event] = book.events.of_entity(letter.entity)
    assert event.event_type == {"task": "Task Failed", "mail": "Mail Failed", "ses": "Ses Failed"}[job]
    assert event.properties["reason"] == attributes.get("reason", event.properties["reason"])
    assert attributes.get("reason") or "SQS gave it up" in event.properties["reason"]


def test_a_letter_of_a_customer_is_about_a_change() -> None:
    raw = {"MessageId": "m", "Body": "{}", "MessageAttributes": {"key": {"StringValue": "change:c7:acme:00A:r1"}}}
    letter = read_letter("p1-changes-acme", raw, Names("p1"))
    assert (letter.job, letter.entity) == ("change", "CHANGE#c7")
    assert letter.next_key() == "change:c7:acme:00A:r2"


def test_a_redrive_is_a_new_attempt_by_itself_and_takes_the_letter_out(book: Book) -> None:
    register, queue = Register(book), book.names.tasks_queue
    letter_id = died(queue, "r1")
    register.gather()
    assert register.redrive(letter_id) == "task:r1:r1"
    [raw] = take(queue)
    parcel = unpack.task(Message.of(queue, "", raw), "agent-task")
    assert parcel.keys == ["task:r1:r1"]
    assert take(Names.dead_letters(queue)) == []
    assert register.listed() == []
    assert told(book, "TASK#r1") == ["Task Failed", "Dead Letter Redriven"]
    assert register.read(letter_id)[1] == "redriven"
    with pytest.raises(BadInput, match="redriven already"):
        register.redrive(letter_id)


def test_a_redrive_that_is_cut_short_is_repeated_under_the_same_key(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    register, queue = Register(book), book.names.tasks_queue
    letter_id = died(queue, "r1", key="task:r1:r4")
    register.gather()

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(Register, "_close", killed)
        with pytest.raises(KeyboardInterrupt):
            register.redrive(letter_id)
    assert [letter.id for letter in register.listed()] == [letter_id], "it was never decided"
    register.redrive(letter_id)
    sent = [unpack.task(Message.of(queue, "", raw), "agent-task").keys for raw in take(queue)]
    assert sent == [["task:r1:r5"], ["task:r1:r5"]], "both ask for the same work: it is done once"


def test_a_decided_letter_that_is_still_in_its_queue_is_taken_out_by_the_next_look(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = Register(book)
    letter_id = died(book.names.tasks_queue)
    register.gather()
    with monkeypatch.context() as cut:
        cut.setattr(Register, "_take_out", lambda *_: None)
        register.dismiss(letter_id)
    assert len(take_and_return(book)) == 1
    assert register.gather() == []
    assert take_and_return(book) == []
    assert told(book, "TASK#r1") == ["Task Failed", "Dead Letter Dismissed"]


def take_and_return(book: Book) -> list[dict[str, Any]]:
    url = find_queue(Names.dead_letters(book.names.tasks_queue))
    found = client("sqs").receive_message(QueueUrl=url, VisibilityTimeout=0, MaxNumberOfMessages=10, WaitTimeSeconds=0)
    return list(found.get("Messages", []))


def test_a_dismissed_letter_is_remembered_with_what_it_was(book: Book) -> None:
    register = Register(book)
    letter_id = died(book.names.tasks_queue)
    register.gather()
    register.dismiss(letter_id)
    kept = book.events.of_entity("TASK#r1")[-1]
    assert kept.properties["reason"] == "the model said no"
    assert json.loads(kept.properties["body"])["prompt"] == "add"
    assert register.read(letter_id)[1] == "dismissed"


def test_a_letter_that_left_its_queue_by_another_hand_is_crossed_off(book: Book) -> None:
    register, queue = Register(book), book.names.tasks_queue
    died(queue, "moved")
    died(queue, "expired")
    register.gather()
    client("sqs").purge_queue(QueueUrl=find_queue(Names.dead_letters(queue)))
    book.leases.enter("task:moved:r1", "task", None)
    register.gather()
    assert [letter.key for letter in register.listed()] == ["task:expired"], "what only expired is still to be decided"


def test_a_letter_too_large_for_a_row_is_kept_whole_and_redriven_whole(book: Book) -> None:
    register, queue = Register(book), book.names.tasks_queue
    body = json.dumps({"requestId": "big", "prompt": "ä" * 80_000}, ensure_ascii=False)
    letter_id = bury(queue, body, reason="too much", key="task:big", requestId="big")
    register.gather()
    assert register.read(letter_id)[0].body == body
    register.redrive(letter_id)
    assert [raw["Body"] for raw in take(queue)] == [body]


def test_a_letter_whose_body_was_put_aside_comes_back_with_it(book: Book) -> None:
    register, queue = Register(book), book.names.tasks_queue
    body = json.dumps({"requestId": "huge", "prompt": "x"})
    client("s3").put_object(Bucket=book.names.tasks_bucket, Key="dead-letters/q/1", Body=body.encode())
    place = f"s3://{book.names.tasks_bucket}/dead-letters/q/1"
    letter_id = bury(queue, json.dumps({"body": place}), reason="r", key="task:huge:r2", body=place, requestId="huge")
    register.gather()
    register.redrive(letter_id)
    [raw] = take(queue)
    assert raw["Body"] == body
    assert unpack.task(Message.of(queue, "", raw), "agent-task").keys == ["task:huge:r3"]


def test_secrets_in_a_reason_do_not_reach_the_list(book: Book) -> None:
    bury(book.names.tasks_queue, "{}", reason="401 for sk-ant-abcdefghijklmnop and Bearer abcdefghijkl")
    [letter] = Register(book).gather()
    assert "abcdefgh" not in letter.reason


def test_secrets_in_a_dismissed_letter_do_not_reach_its_event(book: Book) -> None:
    letter_id = bury(book.names.tasks_queue, '{"prompt": "use sk-ant-abcdefghijklmnop"}', reason="no requestId")
    Register(book).gather()
    dismissed = Register(book).dismiss(letter_id)
    kept = book.events.of_entity(dismissed.entity)[-1]
    assert kept.properties["body"] == '{"prompt": "use [api key]"}'


def test_a_letter_that_nobody_knows_is_missing(book: Book) -> None:
    with pytest.raises(Missing, match="no dead letter"):
        Register(book).read(uuid.uuid4().hex)


def test_the_next_attempt_follows_the_one_that_died() -> None:
    def of(key: str | None) -> str | None:
        return DeadLetter("i", "q", "task", "{}", "r", key=key).next_key()

    assert (of("task:a"), of("task:a:r9"), of(None)) == ("task:a:r1", "task:a:r10", None)
    assert of("email:odd:r") == "email:odd:r:r1"
    assert of("task:r7") == "task:r7:r1", "a task that is called r7"


def test_a_letter_whose_work_was_done_after_all_is_not_listed_any_more(book: Book) -> None:
    died(book.names.tasks_queue, "mended")
    register = Register(book)
    [letter] = register.gather()
    started = book.leases.start("task:mended", "task", "a Retry in the UI", again=True)
    assert isinstance(started, Granted)
    register.gather()
    assert [each.id for each in register.listed()] == [letter.id], "being tried again is not yet done"
    book.leases.finish(started.lease, State.DONE)
    register.gather()
    assert register.listed() == []
    assert register.read(letter.id)[1] == "done by another hand"
    register.gather()
    assert take(Names.dead_letters(book.names.tasks_queue)) == []
