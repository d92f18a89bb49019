"""From a message's body to orders. Everything here is a pure function of the message.

An S3 notification comes bare, or inside an SNS or EventBridge envelope; it may carry several records,
each of which stands for itself: one that can't be read does not hold up the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from postroom import message_ids
from postroom.errors import BadInput, PostroomError, Unparsable
from postroom.ledger import Event, Work
from postroom.tasks.storable import MOST_BYTES, check_storable
from workers.orders import Message, Order, Parcel, Spoiled

REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")
CHANGE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
SES_SETUP = "AMAZON_SES_SETUP_NOTIFICATION"  # what SES writes once to see that it may


@dataclass(frozen=True)
class Stored:
    """An object that was written to a bucket."""

    bucket: str
    key: str
    sequencer: str
    body: str


def mail(message: Message, deployment: str) -> Parcel:
    """`incoming/{message_id}` was written: one mail."""

    def order(stored: Stored) -> Order | str:
        folder, _, message_id = stored.key.partition("/")
        if folder != "incoming" or message_id in ("", SES_SETUP):
            return f"{stored.key!r} is no mail"
        if not message_ids.fits(message_id):
            # refused here, alone: further on it would fail the mails that are gathered with it
            raise BadInput(
                f"{stored.key[:200]!r} does not name a mail: incoming/{{message_id}} expected, "
                f"and a message id is {message_ids.WANTED}"
            )
        key = _key(message, f"email:{message_id}")
        return Order(
            key,
            "mail",
            Work(
                deployment,
                {"bucket": stored.bucket, "key": stored.key, "message_id": message_id},
                ("job:mail", f"key:{key}"),
            ),
            f"msg-{message_id}",
            stored.body,
            Event("Mail Received", f"MAIL#{message_id}", "mail", {"bucket": stored.bucket, "key": stored.key}),
        )

    return _each_object(message, order)


def change(message: Message, deployment: str, code: str) -> Parcel:
    """`customers/{code}/{id}.json` was written: one change for one customer."""

    def order(stored: Stored) -> Order | str:
        folder, _, rest = stored.key.partition("/")
        customer, _, name = rest.partition("/")
        if folder != "customers" or not name:
            return f"{stored.key!r} is no change of a customer"
        if customer != code:
            raise BadInput(f"{stored.key[:200]!r} is not of the customer {code!r} whose queue this is")
        change_id = name.removesuffix(".json")
        if change_id == name or not CHANGE_ID.fullmatch(change_id):
            raise BadInput(f"{stored.key[:200]!r} does not name a change: customers/{code}/{{id}}.json expected")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", stored.sequencer):
            raise BadInput(f"the notification of {stored.key!r} has no sequencer")
        key = _key(message, f"change:{change_id}:{code}:{stored.sequencer}")
        about = {"bucket": stored.bucket, "key": stored.key, "sequencer": stored.sequencer}
        tags = ("job:change", f"key:{key}", f"customer:{code}", f"change:{change_id}")
        return Order(
            key,
            "change",
            Work(deployment, {"code": code, "change_id": change_id, **about}, tags),
            f"change-{change_id}-{code}",
            stored.body,
            Event("Change Received", f"CHANGE#{change_id}", "change", {"customer": code, **about}),
        )

    return _each_object(message, order)


def task(message: Message, deployment: str) -> Parcel:
    """A task as its sender wrote it, with the id it will be known by."""
    try:
        body = json_object(message.body)
        request_id = _request_id(message, body)
        key = _key(message, f"task:{request_id}")
    except PostroomError as error:
        told = Event(
            "Task Failed",
            f"TASK#invalid-{message.id}",
            "task",
            {"error": str(error), "category": error.category, "attempt": 0},
            at_ms=message.sent_ms,
            event_id=f"invalid-{message.id}",  # the same message again is no second event
        )
        return Parcel(spoiled=[Spoiled(message.body, error, told)])
    work = Work(deployment, {"request_id": request_id, "task": body}, ("job:task", f"key:{key}"))
    about = {name: str(body[name])[:200] for name in ("name", "jobId") if body.get(name)}
    received = Event("Task Pending", f"TASK#{request_id}", "task", about)
    return Parcel([Order(key, "task", work, f"task-{request_id}", message.body, received)])


def _request_id(message: Message, body: dict[str, Any]) -> str:
    outside, inside = message.attribute("requestId"), body.get("requestId")
    if outside is None and inside is None:
        raise BadInput("requestId is missing: neither the message's attribute nor its body has one")
    if inside is not None and outside is not None and inside != outside:
        raise BadInput(f"requestId differs: attribute {outside[:80]!r}, body {str(inside)[:80]!r}")
    found = outside if outside is not None else inside
    if not isinstance(found, str) or not REQUEST_ID.fullmatch(found):
        raise BadInput(f"requestId {str(found)[:80]!r} is not 1-256 characters of A-Z, a-z, 0-9, '_' and '-'")
    return found


def _key(message: Message, key: str) -> str:
    """The key, with `:r{n}` when it is done once more: asked for by a person, or back from the dead letters."""
    asked, last = message.attribute("replay"), 0
    if asked is not None:
        if not re.fullmatch(r"r[1-9]\d{0,5}", asked):
            raise BadInput(f"the attribute replay is {asked[:40]!r}; it should be like 'r1'")
        last = int(asked[1:])
    if message.attribute("reason") is not None:  # a dead letter says which attempt it was: this is the one after
        died = re.fullmatch(re.escape(key) + r"(?::r(\d{1,6}))?", message.attribute("key") or "")
        last = max(last, int(died[1] or 0) + 1) if died else last
    return f"{key}:r{last}" if last else key


def _each_object(message: Message, order: Callable[[Stored], Order | str]) -> Parcel:
    orders, spoiled, ignored = [], [], []
    try:
        for record in _records(json_object(message.body)):
            try:
                stored = record if isinstance(record, str) else _stored(*record)
                found = stored if isinstance(stored, str) else order(stored)
                if isinstance(found, str):
                    ignored.append(found)
                else:
                    orders.append(found)
            except PostroomError as error:
                spoiled.append(Spoiled(_alone(record), error))
    except PostroomError as error:
        return Parcel(spoiled=[Spoiled(message.body, error)])
    if len(orders) + len(spoiled) + len(ignored) == 1:  # the message as it came is the better evidence
        orders = [Order(o.key, o.job, o.work, o.correlation, message.body, o.received) for o in orders]
        spoiled = [Spoiled(message.body, s.error) for s in spoiled]
    return Parcel(orders, spoiled, ignored)


Record = tuple[str, Any]  # "record" of a notification, or "detail" of an EventBridge event


def _records(body: dict[str, Any], inside: int = 0) -> Iterator[Record | str]:
    """The records of a notification in whatever envelope; a text says why there is nothing to do."""
    if body.get("Event") == "s3:TestEvent":
        yield "a test event of S3"
    elif isinstance(body.get("Records"), list):
        if not body["Records"]:
            raise BadInput("Records is empty")
        for record in body["Records"]:
            yield "record", record
    elif body.get("source") == "aws.s3" and isinstance(body.get("detail-type"), str):
        if body["detail-type"] == "Object Created":
            yield "detail", body
        else:
            yield f"{body['detail-type'][:80]!r} is not about a new object"
    elif isinstance(body.get("Message"), str) and "TopicArn" in body and inside < 2:
        yield from _records(json_object(body["Message"]), inside + 1)
    else:
        raise BadInput("this is no S3 notification: neither Records nor an envelope that we know")


def _stored(kind: str, record: Any) -> Stored | str:
    if kind == "detail":
        detail = record.get("detail")
        bucket, thing = _part(detail, "bucket", "detail"), _part(detail, "object", "detail")
        key = _text(thing, "key", "detail.object")  # EventBridge does not encode keys
    else:
        if not isinstance(record, dict):
            raise BadInput("a record is not an object")
        name = _text(record, "eventName", "record")
        if not name.removeprefix("s3:").startswith("ObjectCreated:"):
            return f"{name[:80]!r} is not about a new object"
        s3 = _part(record, "s3", "record")
        bucket, thing = _part(s3, "bucket", "record.s3"), _part(s3, "object", "record.s3")
        try:
            key = unquote_plus(_text(thing, "key", "record.s3.object"), errors="strict")
        except UnicodeDecodeError:
            raise Unparsable("record.s3.object.key is not url-encoded UTF-8") from None
    sequencer = thing.get("sequencer", "")
    if not isinstance(sequencer, str):
        raise BadInput("the sequencer is not a text")
    return Stored(_text(bucket, "name", "bucket"), key, sequencer, _alone((kind, record)))


def _alone(record: Record | str) -> str:
    if isinstance(record, str):
        return record
    kind, content = record
    return json.dumps(content if kind == "detail" else {"Records": [content]}, ensure_ascii=False)


def _part(value: Any, name: str, where: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise BadInput(f"{where}.{name} is missing or no object")
    return found


def _text(value: dict[str, Any], name: str, where: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found or len(found) > 4096:
        raise BadInput(f"{where}.{name} is missing or no text of a sensible length")
    return found


def json_object(body: str) -> dict[str, Any]:
    """The body as a JSON object that the book and Prefect can store; else an error that says what is wrong."""
    if len(body.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise BadInput(f"the body is larger than {MOST_BYTES} bytes")
    try:
        found = json.loads(body)
    except RecursionError:
        raise Unparsable("the body is nested too deeply") from None
    except ValueError as error:
        raise Unparsable(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput(f"the body is no JSON object but {type(found).__name__}")
    check_storable(found, "the body")
    return found
