"""Queues: attributes, dead letters, and who may send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.clients import client, region
from postroom.aws.resource import code_of

_GONE = {"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}


def account() -> str:
    """The number of the account we work in."""
    return str(client("sts").get_caller_identity()["Account"])


def queue_arn(name: str, account_id: str) -> str:
    return f"arn:aws:sqs:{region()}:{account_id}:{name}"


@dataclass(frozen=True)
class Queue:
    """A queue as it should be. `senders` maps a service (`s3`, `sns`) to the ARN pattern it may send from."""

    name: str
    account_id: str
    attributes: Mapping[str, str]
    dead_letters: str | None = None
    max_receives: int = 0
    senders: tuple[tuple[str, str], ...] = ()
    kind: str = "queue"

    def wanted(self) -> dict[str, str]:
        wanted = dict(self.attributes)
        if self.dead_letters:
            target = queue_arn(self.dead_letters, self.account_id)
            redrive = {"deadLetterTargetArn": target, "maxReceiveCount": str(self.max_receives)}
            wanted["RedrivePolicy"] = json.dumps(redrive)
        if self.senders:
            wanted["Policy"] = json.dumps(self._policy())
        return wanted

    def _policy(self) -> dict[str, Any]:
        return {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Sid": f"{service}-sends",
                    "Effect": "Allow",
                    "Principal": {"Service": f"{service}.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": queue_arn(self.name, self.account_id),
                    "Condition": {
                        "ArnLike": {"aws:SourceArn": source},
                        "StringEquals": {"aws:SourceAccount": self.account_id},
                    },
                }
                for service, source in self.senders
            ],
        }

    def differences(self) -> list[str] | None:
        url = find_queue(self.name)
        if url is None:
            return None
        have = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"]).get("Attributes", {})
        return [name for name, value in self.wanted().items() if not _same(have.get(name), value)]

    def create(self) -> None:
        try:
            client("sqs").create_queue(QueueName=self.name, Attributes=self.wanted())
        except ClientError as error:
            if code_of(error) not in {"QueueNameExists", "QueueAlreadyExists"}:
                raise
            self.mend(self.differences() or [])  # someone was quicker, perhaps with other attributes

    def mend(self, differences: list[str]) -> None:
        url = find_queue(self.name)
        if url is not None and differences:
            wanted = self.wanted()
            attributes = {name: wanted[name] for name in differences}
            client("sqs").set_queue_attributes(QueueUrl=url, Attributes=attributes)


def find_queue(name: str) -> str | None:
    """The queue's URL, or None."""
    try:
        return str(client("sqs").get_queue_url(QueueName=name)["QueueUrl"])
    except ClientError as error:
        if code_of(error) in _GONE:
            return None
        raise


def remove_queue(name: str) -> bool:
    """Deletes the queue with all it holds; False when there is none."""
    url = find_queue(name)
    if url is None:
        return False
    try:
        client("sqs").delete_queue(QueueUrl=url)
    except ClientError as error:
        if code_of(error) not in _GONE:
            raise
    return True


def _same(have: str | None, wanted: str) -> bool:
    if have == wanted:
        return True
    try:  # AWS may give the same document back with other spacing, or a number where a text went in
        return bool(_plain(json.loads(have or "")) == _plain(json.loads(wanted)))
    except ValueError:
        return False


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value)
