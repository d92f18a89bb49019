"""From a message to one run, and off the shelf when the book says that its work has ended."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from prefect.client.orchestration import get_client
from prefect.states import Completed, Crashed

from postroom.aws import provision
from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.aws.queues import find_queue, remove_queue
from postroom.errors import Refused, Unavailable
from postroom.ledger import Book, Row, State, Work
from postroom.settings import load
from tests.workers.sensing import (
    QUICK,
    asked_for,
    begin,
    dead_letters,
    deployments,
    finish,
    left_in,
    mail_event,
    new_id,
    runs_of,
    send,
    sensing,
    task_body,
    until,
)
from workers.asking import ask_prefect
from workers.intake import BookCalls
from workers.sensor import Sensor
from workers.sweeper import Sweeper


@pytest.fixture(autouse=True)
async def deployed(prefect_server: str) -> AsyncIterator[None]:
    async with deployments("email-to-site", "agent-task", "change-to-notification"):
        yield


async def empty(queue: str, seconds: float = 20) -> None:
    await until(lambda: left_in(queue) == (0, 0), f"{queue} empty", seconds)


async def test_a_message_becomes_a_run_and_is_deleted_only_when_the_book_says_done(provisioned: Names) -> None:
    mail = new_id()
    key = f"email:{mail}"
    async with sensing(provisioned.prefix, promise_seconds=60) as sensor:
        client("s3").put_object(Bucket=provisioned.mail_bucket, Key=f"incoming/{mail}", Body=b"From: a@example.com")
        row = await asked_for(sensor.book, key)
        (run,) = await runs_of(key)
        assert (str(run.id), run.name, run.idempotency_key) == (row.run_id, f"msg-{mail}", key)
        assert run.parameters["bucket"] == provisioned.mail_bucket
        async with get_client() as prefect:
            await prefect.set_flow_run_state(run.id, Completed(), force=True)
        working = begin(sensor.book, key)
        await until(lambda: any(held.age > 5 for held in sensor.shelf), "held longer than its visibility")
        assert left_in(provisioned.mail_queue) == (0, 1)
        sensor.book.leases.finish(working.lease, State.DONE)
        await empty(provisioned.mail_queue, 3)
        await until(lambda: len(sensor.shelf) == 0, "the shelf is empty")
    kinds = [event.event_type for event in sensor.book.events.of_entity(f"MAIL#{mail}")]
    assert kinds == ["Mail Received"]


async def test_the_same_message_again_after_the_end_makes_no_second_run(provisioned: Names) -> None:
    mail = new_id()
    async with sensing(provisioned.prefix) as sensor:
        for _ in range(2):
            send(provisioned.mail_queue, mail_event(mail))
        row = await asked_for(sensor.book, f"email:{mail}")
        finish(sensor.book, row.key)
        await empty(provisioned.mail_queue)
        send(provisioned.mail_queue, mail_event(mail))
        await empty(provisioned.mail_queue)
    assert len(await runs_of(row.key)) == 1
    assert dead_letters(provisioned.mail_queue, seconds=0.5) == []


async def test_five_deliveries_to_four_sensors_make_one_run(provisioned: Names) -> None:
    mail, lost, queue = new_id(), new_id(), provisioned.mail_queue
    async with AsyncExitStack() as stack:
        sensors = [await stack.enter_async_context(sensing(provisioned.prefix)) for _ in range(4)]
        for _ in range(5):
            send(queue, mail_event(mail))
        book = sensors[0].book
        row = await asked_for(book, f"email:{mail}")
        await until(lambda: sum(len(each.shelf) for each in sensors) == 5, "all five held")
        assert [str(run.id) for run in await runs_of(row.key)] == [row.run_id]
        finish(book, row.key)
        await empty(queue)

        # all four sweep, and work that lost its holder is rescheduled by one of them
        send(queue, mail_event(lost))
        row = await asked_for(book, f"email:{lost}")
        begin(book, row.key)
        async with get_client() as prefect:
            await prefect.set_flow_run_state(row.run_id, Crashed(), force=True)
            await until(lambda: book.leases.read(row.key).asked > 1, "rescheduled")
            await until(lambda: any(each.done["unpaid work"] > time.time() - 0.2 for each in sensors), "swept again")
            states = await prefect.read_flow_run_states(row.run_id)
        assert [state.name for state in states].count("Rescheduled") <= 1
        finish(book, row.key)
        await empty(queue)
    assert dead_letters(queue, seconds=0.5) == []


async def test_a_message_with_several_mails_waits_for_the_last(provisioned: Names) -> None:
    one, two = new_id(), new_id()
    async with sensing(provisioned.prefix) as sensor:
        send(provisioned.mail_queue, mail_event(one, two))
        for each in (one, two):
            await asked_for(sensor.book, f"email:{each}")
        finish(sensor.book, f"email:{one}")
        (held,) = sensor.shelf
        looked = held.look_at
        await until(lambda: held.look_at > looked + 1, "looked at twice more")
        assert left_in(provisioned.mail_queue) == (0, 1)
        finish(sensor.book, f"email:{two}", state=State.FAILED)
        await empty(provisioned.mail_queue)
    (letter,) = dead_letters(provisioned.mail_queue)
    assert (letter["key"], letter["reason"], letter["queue"]) == (f"email:{two}", "torn", provisioned.mail_queue)
    assert json.loads(letter["body"]) == json.loads(mail_event(two))  # it alone


async def test_what_nobody_can_read_is_a_dead_letter_with_its_reason(provisioned: Names) -> None:
    async with sensing(provisioned.prefix) as sensor:
        message_id = send(provisioned.tasks_queue, "{", sender="someone")
        send(provisioned.mail_queue, '{"Records": [7]}')
        await empty(provisioned.tasks_queue)
        await empty(provisioned.mail_queue)
        (task,), (mail,) = dead_letters(provisioned.tasks_queue), dead_letters(provisioned.mail_queue)
        assert (task["body"], task["category"], task["sender"]) == ("{", "parse", "someone")
        assert "no JSON" in task["reason"]
        assert "not an object" in mail["reason"]
        (event,) = sensor.book.events.of_entity(f"TASK#invalid-{message_id}")
        assert event.event_type == "Task Failed"


async def test_s3s_test_event_is_thrown_away(provisioned: Names) -> None:
    async with sensing(provisioned.prefix):
        send(provisioned.mail_queue, '{"Event": "s3:TestEvent", "Bucket": "b"}')
        await empty(provisioned.mail_queue)
    assert dead_letters(provisioned.mail_queue, seconds=0.5) == []


async def test_tasks_that_were_put_off_for_hours_leave_their_places_to_others(provisioned: Names) -> None:
    async with sensing(provisioned.prefix, task_concurrency=1) as sensor:
        first = [new_id(), new_id()]
        for request in first:
            send(provisioned.tasks_queue, task_body(request), requestId=request)
        for request in first:
            row = await asked_for(sensor.book, f"task:{request}")
            hours = sensor.book.clock.now_ms() + 7_200_000
            sensor.book.leases.put_off(begin(sensor.book, row.key, "task").lease, hours, "the model is closed")
        await until(lambda: all(held.resting for held in sensor.shelf), "both rest")
        request = new_id()
        send(provisioned.tasks_queue, task_body(request), requestId=request)
        row = await asked_for(sensor.book, f"task:{request}")
        assert len(sensor.shelf) == 3
        finish(sensor.book, row.key, "task")
        await until(lambda: len(sensor.shelf) == 2, "what rests is held on")


async def test_work_that_fails_for_good_is_a_dead_letter_and_its_redrive_a_new_attempt(provisioned: Names) -> None:
    request = new_id()
    async with sensing(provisioned.prefix) as sensor:
        send(provisioned.tasks_queue, task_body(request), requestId=request)
        row = await asked_for(sensor.book, f"task:{request}")
        sensor.book.leases.fail(begin(sensor.book, row.key, "task").lease, Refused("not allowed, sk-abcdefghijklmnop"))
        await empty(provisioned.tasks_queue)
        (letter,) = dead_letters(provisioned.tasks_queue)
        assert (letter["category"], letter["reason"]) == ("refused", "not allowed, [api key]")
        again = {name: value for name, value in letter.items() if name != "body"}
        send(provisioned.tasks_queue, letter["body"], **again)
        second = await asked_for(sensor.book, f"{row.key}:r1")
        assert second.run_id != row.run_id
        finish(sensor.book, second.key, "task")
        await empty(provisioned.tasks_queue)


async def test_a_run_that_prefect_refuses_is_a_dead_letter(provisioned: Names) -> None:
    request = new_id()
    async with sensing(provisioned.prefix) as sensor:
        async with get_client() as prefect:
            flow_id = await prefect.create_flow_from_name("agent-task")
            schema = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["nothing"]}
            await prefect.create_deployment(
                flow_id,
                "agent-task",
                entrypoint="nowhere.py:unserved",
                parameter_openapi_schema=schema,
                enforce_parameter_schema=True,
            )
        send(provisioned.tasks_queue, task_body(request))
        await empty(provisioned.tasks_queue)
        row = sensor.book.leases.read(f"task:{request}")
    assert row.state is State.FAILED
    (letter,) = dead_letters(provisioned.tasks_queue)
    assert "Prefect does not accept the run" in letter["reason"]


async def test_tasks_are_held_up_to_twice_their_concurrency_and_mail_is_read_ahead(provisioned: Names) -> None:
    requests, mails = [new_id() for _ in range(7)], [new_id() for _ in range(15)]
    async with sensing(provisioned.prefix, task_concurrency=2) as sensor:
        for each in requests:
            send(provisioned.tasks_queue, task_body(each))
        for each in mails:
            send(provisioned.mail_queue, mail_event(each))
        await until(lambda: sensor.shelf.count(provisioned.mail_queue) == 15, "all mail held")
        await until(lambda: left_in(provisioned.tasks_queue) == (3, 4), "four of seven tasks held")

        def known() -> list[str]:
            return [each for each in requests if sensor.book.leases.find(f"task:{each}")]

        await until(lambda: len(known()) == 4, "the four to be in the book")
        finish(sensor.book, f"task:{known()[0]}", "task")
        await until(lambda: left_in(provisioned.tasks_queue) == (2, 4), "the next task taken in")


async def test_a_queue_that_appears_is_listened_to_and_one_that_goes_is_left(provisioned: Names) -> None:
    change = new_id()
    async with sensing(provisioned.prefix) as sensor:
        provision.provision_customer("acme")
        sensor.discover()
        queue = provisioned.changes_queue("acme")
        await until(lambda: queue in sensor.report()[1]["queues"], "listening to the customer's queue")
        assert not [name for name in sensor.report()[1]["queues"] if name.endswith("-dlq")]
        body = json.dumps({"id": change})
        client("s3").put_object(Bucket=provisioned.changes_bucket, Key=f"customers/acme/{change}.json", Body=body)

        def entered() -> list[Row]:
            return [row for row in sensor.book.leases.unpaid("change") if row.run_id]

        (row,) = await until(entered, "the change in the book")
        assert row.key.startswith(f"change:{change}:acme:")
        assert "customer:acme" in (await runs_of(row.key))[0].tags
        remove_queue(queue)
        sensor.discover()
        await until(lambda: queue not in sensor.report()[1]["queues"], "the queue is left")
        await until(lambda: len(sensor.shelf) == 0, "what could not be extended three times is let go")


async def test_three_failures_to_extend_are_said_and_the_message_is_let_go(
    provisioned: Names, caplog: pytest.LogCaptureFixture
) -> None:
    mail = new_id()
    async with sensing(provisioned.prefix) as sensor:
        send(provisioned.mail_queue, mail_event(mail))
        await asked_for(sensor.book, f"email:{mail}")
        (held,) = sensor.shelf
        remove_queue(provisioned.mail_queue)  # nothing of it can be extended any more
        await until(lambda: held not in sensor.shelf, "let go")
    assert held.failures == 3
    assert f"message {held.message.id} is let go, it could not be extended" in caplog.text


async def test_what_is_held_too_long_is_replaced_by_a_copy(provisioned: Names) -> None:
    request = new_id()
    async with sensing(provisioned.prefix, hold_seconds=1.0) as sensor:
        first = send(provisioned.tasks_queue, task_body(), requestId=request)
        row = await asked_for(sensor.book, f"task:{request}")
        assert [held.message.id for held in sensor.shelf] == [first]
        await until(lambda: first not in [h.message.id for h in sensor.shelf] and len(sensor.shelf), "a copy is held")
        assert sum(left_in(provisioned.tasks_queue)) == 1
        finish(sensor.book, row.key, "task")
        await empty(provisioned.tasks_queue)
    assert len(await runs_of(row.key)) == 1


def receive_until(queue: str, receives: int) -> None:
    """As others would who take a message and fall over."""
    url, sqs = find_queue(queue), client("sqs")
    for _ in range(receives):
        (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10, AttributeNames=["All"])["Messages"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=0)
        if int(got["Attributes"]["ApproximateReceiveCount"]) >= receives:
            return


async def test_a_message_that_never_gets_into_the_book_is_dead_at_the_tenth_receive(provisioned: Names) -> None:
    request, queue = new_id(), provisioned.tasks_queue
    send(queue, task_body(request))
    receive_until(queue, 9)
    async with sensing(provisioned.prefix) as sensor:
        await empty(queue)
        assert sensor.book.leases.find(f"task:{request}") is None
    (letter,) = dead_letters(queue)
    assert "received 10 times" in letter["reason"]


async def test_what_is_in_the_book_is_no_poison_however_often_it_is_received(provisioned: Names) -> None:
    request, queue = new_id(), provisioned.tasks_queue
    first = send(queue, task_body(request))
    async with sensing(provisioned.prefix) as sensor:
        row = await asked_for(sensor.book, f"task:{request}")
    receive_until(queue, 9)
    async with sensing(provisioned.prefix) as sensor:
        await until(lambda: [h for h in sensor.shelf if h.message.id != first], "a copy that counts from one")
        finish(sensor.book, row.key, "task")
        await empty(queue)
    assert len(await runs_of(row.key)) == 1
    assert dead_letters(queue, seconds=0.5) == []


async def test_poison_beside_what_is_in_the_book_is_buried_before_the_rest_is_sent_again(provisioned: Names) -> None:
    known, poison, queue = [new_id(), new_id()], new_id(), provisioned.mail_queue
    client("sqs").purge_queue(QueueUrl=find_queue(queue))  # of what S3 says when it is told of a queue
    first = send(queue, mail_event(*known, poison))
    receive_until(queue, 9)
    book = Book(load(prefix=provisioned.prefix, **QUICK))
    for mail in known:
        book.leases.enter(f"email:{mail}", "mail", Work("email-to-site", {}, ("job:mail", f"key:email:{mail}")))
    async with sensing(provisioned.prefix) as sensor:

        def copies() -> set[str]:
            return {key for held in sensor.shelf if held.message.id != first for key in held.parcel.keys}

        await until(lambda: copies() == {f"email:{mail}" for mail in known}, "a copy of each that is in the book")
        await until(lambda: len(sensor.shelf) == 2, "the worn message to be put away")
        (letter,) = dead_letters(queue)
        assert poison in letter["body"]
        assert not any(mail in letter["body"] for mail in known)
        for mail in known:
            finish(sensor.book, f"email:{mail}")
        await empty(queue)
        assert book.leases.find(f"email:{poison}") is None


async def test_a_deployment_that_is_not_there_yet_is_waited_for(provisioned: Names) -> None:
    name = f"late-{new_id()[:8]}"
    from workers import unpack
    from workers.routes import Route

    mail = new_id()
    table = [Route("mail", provisioned.mail_queue, name, unpack.mail)]
    async with sensing(provisioned.prefix, table) as sensor:
        send(provisioned.mail_queue, mail_event(mail))
        await until(lambda: sensor.book.leases.find(f"email:{mail}"), "entered")
        async with deployments(name):
            row = await asked_for(sensor.book, f"email:{mail}")
        finish(sensor.book, row.key)
        await empty(provisioned.mail_queue)


async def test_a_failed_attempt_is_rescheduled_and_the_third_is_the_last(provisioned: Names) -> None:
    mail = new_id()
    async with sensing(provisioned.prefix) as sensor:
        send(provisioned.mail_queue, mail_event(mail))
        row = await asked_for(sensor.book, f"email:{mail}")
        assert row.run_id

        async def scheduled_again() -> bool:
            async with get_client() as prefect:
                return (await prefect.read_flow_run(row.run_id)).state.name == "Rescheduled"

        for attempt in (1, 2, 3):
            granted = begin(sensor.book, row.key)
            assert granted.lease.attempt == attempt
            sensor.book.leases.fail(granted.lease, Unavailable("the wind blew"), delay_ms=0)
            async with get_client() as prefect:
                await prefect.set_flow_run_state(row.run_id, Crashed(), force=True)
            if attempt < 3:
                await until(scheduled_again, f"rescheduled after attempt {attempt}")
        await empty(provisioned.mail_queue)
    (letter,) = dead_letters(provisioned.mail_queue)
    assert "the wind blew" in letter["reason"]
    assert len(await runs_of(row.key)) == 1


async def test_work_that_prefect_chokes_on_does_not_hold_up_the_rest_and_is_counted(provisioned: Names) -> None:
    book = Book(load(prefix=provisioned.prefix, **QUICK))
    bad, good = f"task:{new_id()}", f"task:{new_id()}"
    for key, word in ((bad, "no\0thing"), (good, "something")):  # Postgres has no room for a NUL
        work = Work("agent-task", {"request_id": key[5:], "task": {"prompt": word}}, ("job:task", f"key:{key}"))
        book.leases.enter(key, "task", work)
    calls = BookCalls(book)
    async with ask_prefect() as asking:
        sweeper = Sweeper(asking, calls)

        async def swept() -> bool:
            await sweeper.sweep()
            return bool(book.leases.read(good).run_id)

        await until(swept, "the second is asked for")
    calls.close()
    assert (book.leases.read(bad).run_id, book.leases.read(bad).asked) == (None, 1)
    assert len(await runs_of(good)) == 1


async def test_a_handle_that_is_given_back_is_visible_at_once(provisioned: Names) -> None:
    mail = new_id()
    async with sensing(provisioned.prefix, visibility_seconds=600) as sensor:
        send(provisioned.mail_queue, mail_event(mail))
        await asked_for(sensor.book, f"email:{mail}")
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert left_in(provisioned.mail_queue) == (1, 0)


async def test_one_queue_that_nobody_polls_any_more_makes_the_sensor_unwell(provisioned: Names) -> None:
    sensor = Sensor(Book(load(prefix=provisioned.prefix)), ())
    assert sensor.report()[0]
    sensor.discovered = time.time()
    sensor.polled = {"mails": time.time(), "tasks": time.time() - 70}
    assert sensor.report()[0]
    sensor.polled["tasks"] -= 10
    assert not sensor.report()[0]
