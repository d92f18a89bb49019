"""What a message asks for, read from its body."""

import json
from typing import Any
from urllib.parse import quote_plus

import pytest

from tests.workers.sensing import mail_event, record, task_body
from workers import unpack
from workers.orders import Message, Parcel

RECORD = record("incoming/abc")


def message(body: Any, **attributes: str) -> Message:
    typed = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
    text = body if isinstance(body, str) else json.dumps(body)
    return Message("q", "url", "sqs-1", "receipt", text, 1, 1_000, typed)


def mail(body: Any, **attributes: str) -> Parcel:
    return unpack.mail(message(body, **attributes), "email-to-site")


def task(body: Any, **attributes: str) -> Parcel:
    return unpack.task(message(body, **attributes), "agent-task")


def change(body: Any, **attributes: str) -> Parcel:
    return unpack.change(message(body, **attributes), "change-to-notification", "acme")


def sns(inner: Any) -> dict[str, Any]:
    return {"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "Message": json.dumps(inner)}


def event_bridge(key: str, kind: str = "Object Created") -> dict[str, Any]:
    thing = {"key": key, "sequencer": "0A"}
    return {"source": "aws.s3", "detail-type": kind, "detail": {"bucket": {"name": "mails"}, "object": thing}}


def test_a_task_of_a_job_says_so_from_its_first_event_on() -> None:
    (order,) = task(task_body("t-1", jobId="j-1")).orders
    assert order.received is not None
    assert order.received.properties == {"name": "sum", "jobId": "j-1"}


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        (mail_event("abc"), ["email:abc"]),
        (mail_event("a", "b", "c"), ["email:a", "email:b", "email:c"]),
        (mail_event("a", "a"), ["email:a"]),
        ({"Records": [record(quote_plus("incoming/a b+c%ä"))]}, ["email:a b+c%ä"]),
        ({"Records": [record("incoming/one+two")]}, ["email:one two"]),
        ({"Records": [record("incoming/abc", event="s3:ObjectCreated:CompleteMultipartUpload")]}, ["email:abc"]),
        (sns({"Records": [RECORD]}), ["email:abc"]),
        (sns(sns({"Records": [RECORD]})), ["email:abc"]),
        (event_bridge("incoming/a b+c%20"), ["email:a b+c%20"]),
        (sns(event_bridge("incoming/abc")), ["email:abc"]),
    ],
)
def test_a_notification_becomes_an_order_for_each_mail(body: Any, keys: list[str]) -> None:
    parcel = mail(body)
    assert parcel.keys == keys
    assert not parcel.spoiled


@pytest.mark.parametrize(
    "body",
    [
        {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "mails"},
        sns({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "mails"}),
        {"Records": [record("incoming/abc", event="ObjectRemoved:Delete")]},
        {"Records": [record("quarantine/abc")]},
        {"Records": [record("incoming/AMAZON_SES_SETUP_NOTIFICATION")]},
        event_bridge("incoming/abc", "Object Deleted"),
    ],
)
def test_what_is_not_about_new_mail_is_ignored_with_a_reason(body: Any) -> None:
    parcel = mail(body)
    assert (parcel.orders, parcel.spoiled) == ([], [])
    assert len(parcel.ignored) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[1]", "no JSON object but list"),
        ("null", "NoneType"),
        ('{"a": NaN, "Records": []}', "number that JSON does not know"),
        ({"Records": []}, "Records is empty"),
        ({"hello": 1}, "no S3 notification"),
        (sns("text"), "no JSON object"),
        (sns(sns(sns({"Records": [RECORD]}))), "no S3 notification"),
        ({"Records": [1]}, "a record is not an object"),
        ({"Records": [{"eventName": "ObjectCreated:Put"}]}, "record.s3 is missing"),
        ({"Records": [record("")]}, "record.s3.object.key is missing"),
        ({"Records": [record("incoming/%ff")]}, "not url-encoded UTF-8"),
        ({"Records": [record("incoming/a/b")]}, "does not name a mail"),
        ({"Records": [record("incoming/a%0Ab")]}, "does not name a mail"),
        ({"Records": [record("incoming/" + "a" * 901)]}, "a message id is at most 900 bytes"),
        ({"Records": [record("incoming/a", bucket="")]}, "bucket.name is missing"),
        ({"Records": [record("incoming/a", sequencer=7)]}, "sequencer is not a text"),
        ({"Records": [record("incoming/a\x00")]}, "NUL"),
        ('{"Records": [{"a": "\\ud800"}]}', "surrogate"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 80 + "1" + "}" * 80, "nested"),
        ('{"a": "' + "x" * 300_000 + '"}', "larger than"),
    ],
)
def test_what_nobody_can_read_is_spoiled_and_says_why(body: Any, reason: str) -> None:
    parcel = mail(body)
    assert not parcel.orders
    assert [reason in str(each.error) for each in parcel.spoiled] == [True]
    assert parcel.spoiled[0].body == (body if isinstance(body, str) else json.dumps(body))


def test_one_bad_record_does_not_hold_up_the_others() -> None:
    parcel = mail({"Records": [record("incoming/a"), 5, record("incoming/b")]})
    assert parcel.keys == ["email:a", "email:b"]
    assert [json.loads(each.body) for each in parcel.spoiled] == [{"Records": [5]}]
    assert mail(parcel.orders[1].body).keys == ["email:b"]  # what would be its dead letter asks for it alone


def test_a_mail_run_knows_where_the_mail_lies_and_carries_its_tags() -> None:
    (order,) = mail(mail_event("abc")).orders
    assert order.work.parameters == {"bucket": "mails", "key": "incoming/abc", "message_id": "abc"}
    assert order.work.tags == ("job:mail", "key:email:abc")


@pytest.mark.parametrize(
    ("body", "attributes", "request_id"),
    [
        (task_body("t-1"), {}, "t-1"),
        (task_body(), {"requestId": "t-2"}, "t-2"),
        (task_body("t_3"), {"requestId": "t_3"}, "t_3"),
    ],
)
def test_a_task_is_known_by_its_request_id(body: str, attributes: dict[str, str], request_id: str) -> None:
    (order,) = task(body, **attributes).orders
    assert order.key == f"task:{request_id}"
    assert order.work.parameters == {"request_id": request_id, "task": json.loads(body)}


@pytest.mark.parametrize(
    ("body", "attributes", "reason"),
    [
        (task_body(), {}, "requestId is missing"),
        (task_body("a"), {"requestId": "b"}, "differs"),
        (task_body("a b"), {}, "is not 1-256 characters"),
        (task_body(), {"requestId": "x" * 257}, "is not 1-256 characters"),
        (json.dumps({"requestId": 7}), {}, "is not 1-256 characters"),
        ("what", {}, "no JSON"),
    ],
)
def test_a_task_without_a_usable_id_is_filed_under_its_message(
    body: str, attributes: dict[str, str], reason: str
) -> None:
    (spoiled,) = task(body, **attributes).spoiled
    assert reason in str(spoiled.error)
    assert spoiled.event is not None
    assert (spoiled.event.event_type, spoiled.event.entity) == ("Task Failed", "TASK#invalid-sqs-1")


def test_a_change_is_known_by_its_customer_and_sequencer() -> None:
    (order,) = change({"Records": [record("customers/acme/CHG-1.json", "changes")]}).orders
    assert order.key == "change:CHG-1:acme:0A1B2C"
    assert order.work.parameters == {
        "code": "acme",
        "change_id": "CHG-1",
        "bucket": "changes",
        "key": "customers/acme/CHG-1.json",
        "sequencer": "0A1B2C",
    }
    assert {"customer:acme", "change:CHG-1"} <= set(order.work.tags)


@pytest.mark.parametrize("key", ["customers/other/CHG-1.json", "customers/acme/CHG-1", "customers/acme/..%2Fx.json"])
def test_a_change_in_the_wrong_place_is_spoiled(key: str) -> None:
    assert len(change({"Records": [record(key)]}).spoiled) == 1


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({"replay": "r2"}, "email:abc:r2"),
        ({"reason": "torn", "key": "email:abc"}, "email:abc:r1"),
        ({"reason": "torn", "key": "email:abc:r4"}, "email:abc:r5"),
        ({"reason": "torn", "key": "email:abc:r1", "replay": "r1"}, "email:abc:r2"),
        ({"reason": "torn", "key": "email:abc", "replay": "r3"}, "email:abc:r3"),
        ({"reason": "torn", "key": "email:other"}, "email:abc"),
        ({"reason": "no JSON"}, "email:abc"),
        ({"key": "email:abc"}, "email:abc"),
    ],
)
def test_a_replay_and_a_redriven_dead_letter_are_new_attempts(attributes: dict[str, str], key: str) -> None:
    assert mail(mail_event("abc"), **attributes).keys == [key]


def test_a_replay_that_is_no_number_is_spoiled() -> None:
    assert "replay" in str(mail(mail_event("abc"), replay="x").spoiled[0].error)


def test_a_mail_whose_name_is_too_long_does_not_hold_up_the_others() -> None:
    parcel = mail({"Records": [record("incoming/" + "ä" * 500), record("incoming/abc")]})
    assert [order.key for order in parcel.orders] == ["email:abc"]
    assert ["at most 900 bytes" in str(spoiled.error) for spoiled in parcel.spoiled] == [True]
