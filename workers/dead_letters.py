"""Letters that can't be delivered: kept as they came, with the reason written on the outside."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.names import Names
from postroom.errors import sanitise
from postroom.ledger.dynamo import code_of
from workers.orders import Message

MOST_ATTRIBUTES = 10  # SQS takes no more
REASON_CHARACTERS = 1000
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TOO_LARGE = {
    "InvalidParameterValue",
    "InvalidMessageContents",
    "BatchRequestTooLong",
    "InvalidParameterValueException",
}

KeepAside = Callable[[str, bytes], Awaitable[str]]  # (name, body) → where it lies now


def outside_of(message: Message, reason: str, category: str, key: str | None) -> dict[str, Any]:
    """The attributes of a dead letter: ours, and as many of the sender's as there is room for."""
    said = {
        "reason": sanitise(reason, limit=REASON_CHARACTERS),
        "category": category,
        "key": (key or "")[:1024],
        "receives": str(message.receives),
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "queue": message.queue,
        "message": message.id,
    }
    ours = {name: _attribute(value) for name, value in said.items() if value}
    theirs = {name: value for name, value in message.attributes.items() if name not in said}
    first = sorted(theirs, key=lambda name: (name not in ("requestId", "replay"), name))
    return {**ours, **{name: sendable(theirs[name]) for name in first[: MOST_ATTRIBUTES - len(ours)]}}


def _attribute(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": _UNWRITABLE.sub("\ufffd", value)}


def sendable(attribute: Mapping[str, Any]) -> dict[str, Any]:
    """A received attribute in the form in which it may be sent again."""
    return {name: attribute[name] for name in ("DataType", "StringValue", "BinaryValue") if attribute.get(name)}


class DeadLetters:
    """Writes to the dead-letter queue beside a queue."""

    def __init__(self, sqs: Any, keep_aside: KeepAside) -> None:
        self._sqs, self._keep_aside = sqs, keep_aside
        self._urls: dict[str, str] = {}

    async def bury(self, message: Message, body: str, reason: str, category: str, key: str | None) -> None:
        """Returns when the letter is safe in the dead-letter queue."""
        queue = Names.dead_letters(message.queue)
        if queue not in self._urls:
            self._urls[queue] = (await self._sqs.get_queue_url(QueueName=queue))["QueueUrl"]
        outside = outside_of(message, reason, category, key)
        try:
            await self._send(queue, body, outside)
        except ClientError as error:
            if code_of(error) not in _TOO_LARGE:
                self._urls.pop(queue, None)
                raise
            # A body at SQS's own limit leaves no room for a reason: it is kept beside, and pointed at.
            place = await self._keep_aside(
                f"dead-letters/{message.queue}/{message.id}", body.encode("utf-8", "surrogatepass")
            )
            await self._send(queue, f'{{"body": "{place}"}}', {**outside, "body": _attribute(place)})

    async def _send(self, queue: str, body: str, outside: dict[str, Any]) -> None:
        if len(outside) > MOST_ATTRIBUTES:
            rest = [name for name in outside if name != "body"]
            outside = {name: outside[name] for name in (*rest[: MOST_ATTRIBUTES - 1], "body")}
        await self._sqs.send_message(QueueUrl=self._urls[queue], MessageBody=body, MessageAttributes=outside)
