"""SQS: every message sent, received, delayed or deleted, by whichever service; and the queues themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from ministack.services import sqs

from deployments.local_aws.keep.journal import Journal
from deployments.local_aws.keep.request import Request
from deployments.local_aws.keep.stores import Stores

_MESSAGE_ACTIONS = {
    *("SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch"),
    *("ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "GetQueueUrl", "GetQueueAttributes"),
    *("ListQueues", "ListQueueTags", "ListDeadLetterSourceQueues", "PurgeQueue"),
}
Touched = dict[tuple[str, str], "Message | None"]


class Message(dict[str, Any]):
    """A message that notices when it changes."""

    def __init__(self, value: dict[str, Any], arn: str, touched: Touched) -> None:
        super().__init__(value)
        self.arn, self.touched = arn, touched

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.touched[self.arn, self["id"]] = self


class Messages(list[Message]):
    """A queue's messages; what is added or cleared is noticed."""

    def __init__(self, values: Iterable[dict[str, Any]], arn: str, touched: Touched) -> None:
        self.arn, self.touched = arn, touched
        super().__init__(value if isinstance(value, Message) else Message(value, arn, touched) for value in values)

    def append(self, value: dict[str, Any]) -> None:
        message = Message(value, self.arn, self.touched)
        super().append(message)
        self.touched[self.arn, message["id"]] = message

    def clear(self) -> None:
        for message in self:
            self.touched[self.arn, message["id"]] = None
        super().clear()

    def pop(self, index: SupportsIndex = -1) -> Message:
        message = super().pop(index)
        self.touched[self.arn, message["id"]] = None
        return message


class Queue(dict[str, Any]):
    """A queue that notices when its list of messages is exchanged for a shorter one."""

    def __init__(self, value: dict[str, Any], touched: Touched, counted: set[str]) -> None:
        self.arn, self.touched, self.counted = value["attributes"]["QueueArn"], touched, counted
        value = {**value, "messages": Messages(value.get("messages", ()), self.arn, touched)}
        super().__init__(value)

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "messages":
            before = self["messages"]
            if len(value) < len(before):
                stays = {message["id"] for message in value}
                for message in before:
                    if message["id"] not in stays:
                        self.touched[self.arn, message["id"]] = None
            value = Messages(value, self.arn, self.touched)
        elif name == "fifo_seq":
            self.counted.add(self["name"])
        super().__setitem__(name, value)


class Queues:
    service = "sqs"

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.touched: Touched = {}
        self.counted: set[str] = set()  # FIFO queues whose numbering went on
        self.settings = Stores(journal, "queue", {"_queues": sqs._queues._data}, _slim)

    def restore(self) -> None:
        self.settings.restore()
        waiting: dict[str, list[dict[str, Any]]] = {}
        for (arn, message_id), message in self.journal.rows("message"):
            waiting.setdefault(arn, []).append(message)
            message["id"] = message_id
        for queue in sqs._queues._data.values():
            arn = queue["attributes"]["QueueArn"]
            queue["messages"] = sorted(
                waiting.pop(arn, ()), key=lambda message: (message["seq"] or "", message["sent_at"])
            )
        for arn, messages in waiting.items():  # of queues that were deleted
            for message in messages:
                self.journal.drop("message", (arn, message["id"]))
        sqs._queue_name_to_url.clear()
        sqs._rebuild_queue_name_index()

    def watch(self) -> None:
        """From now on every message is noticed; queues created later are taken in by collect."""
        for key, queue in list(sqs._queues._data.items()):
            if not isinstance(queue, Queue):
                sqs._queues._data[key] = Queue(queue, self.touched, self.counted)

    def collect(self, request: Request | None) -> None:
        if request and request.service == "sqs" and request.action not in _MESSAGE_ACTIONS:
            self.watch()
            if request.action == "DeleteQueue":
                self._forget_messages(request.names())
            self.settings.collect(request.names())
        while self.counted:
            self.settings.collect(self.counted.pop())
        while self.touched:
            key, message = self.touched.popitem()
            if message is None:
                self.journal.drop("message", key)
            else:
                self.journal.put("message", key, dict(message))

    def _forget_messages(self, name: str) -> None:
        arns = {queue["attributes"]["QueueArn"] for queue in sqs._queues._data.values()}
        for key, _ in list(self.journal.rows("message")):
            if key[0] not in arns and key[0].endswith(f":{name}"):
                self.journal.drop("message", key)


def _slim(name: str, value: Any) -> Any:
    return {key: part for key, part in value.items() if key != "messages"}
