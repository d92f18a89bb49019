"""S3 → SQS notifications of a bucket, changed one at a time and never at the cost of another's.

A bucket has one notification document that is only ever replaced whole. Two runs that read, add
and write at once would lose one of the additions, so whoever changes it holds a lock: an object
in the same bucket, created with If-None-Match, taken over with If-Match when its holder is gone.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.aws.resource import code_of
from postroom.errors import LimitReached, TimedOut

LOCK = ".postroom/notifications.lock"
HELD_SECONDS = 30.0
MOST = 100  # AWS's limit of notifications per bucket
_LOST = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}


@dataclass(frozen=True)
class Notification:
    """A bucket tells a queue of new objects below a prefix."""

    bucket: str
    id: str
    queue_arn: str
    prefix: str
    suffix: str = ""
    kind: str = "notification"

    @property
    def name(self) -> str:
        return f"{self.bucket}/{self.prefix}"

    def wire(self) -> dict[str, Any]:
        rules = [{"Name": "Prefix", "Value": self.prefix}]
        if self.suffix:
            rules.append({"Name": "Suffix", "Value": self.suffix})
        return {
            "Id": self.id,
            "QueueArn": self.queue_arn,
            "Events": ["s3:ObjectCreated:*"],
            "Filter": {"Key": {"FilterRules": rules}},
        }

    def differences(self) -> list[str] | None:
        try:
            mine = [
                each for each in _configuration(self.bucket).get("QueueConfigurations", []) if each["Id"] == self.id
            ]
        except ClientError as error:
            if code_of(error) in {"NoSuchBucket", "404"}:
                return None
            raise
        if not mine:
            return None
        return [] if _plain(mine[0]) == _plain(self.wire()) else ["queue, prefix or events"]

    def create(self) -> None:
        def added(queues: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [*(each for each in queues if each["Id"] != self.id), self.wire()]

        _change(self.bucket, added)

    def mend(self, differences: list[str]) -> None:
        if differences:
            self.create()


def remove_notification(bucket: str, notification_id: str) -> None:
    """Takes one notification out of the bucket's document; the others stay."""
    _change(bucket, lambda queues: [each for each in queues if each["Id"] != notification_id])


def _change(bucket: str, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    with _turn(bucket):
        configuration = _configuration(bucket)
        before = configuration.get("QueueConfigurations", [])
        after = edit(list(before))
        if [_plain(each) for each in after] == [_plain(each) for each in before]:
            return
        if len(after) > MOST:
            raise LimitReached(f"bucket {bucket} would have {len(after)} notifications; AWS allows {MOST}")
        configuration["QueueConfigurations"] = after
        for attempt in range(6):
            try:
                client("s3").put_bucket_notification_configuration(
                    Bucket=bucket, NotificationConfiguration=configuration
                )
                return
            except ClientError as error:
                # S3 tests the queue's policy, which may be seconds old and not yet known everywhere.
                if code_of(error) != "InvalidArgument" or attempt == 5:
                    raise
                time.sleep(min(4.0, 0.5 * 2**attempt))


def _configuration(bucket: str) -> dict[str, Any]:
    answer = client("s3").get_bucket_notification_configuration(Bucket=bucket)
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}


def _plain(configuration: dict[str, Any]) -> dict[str, Any]:
    rules = configuration.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    return {
        "id": configuration["Id"],
        "queue": configuration["QueueArn"],
        "events": sorted(configuration["Events"]),
        "filter": sorted((rule["Name"].lower(), rule["Value"]) for rule in rules),
    }


@contextmanager
def _turn(bucket: str, *, patience: float = 90.0) -> Iterator[None]:
    """Holds the bucket's lock for the block."""
    s3, deadline = client("s3"), time.monotonic() + patience
    holder = uuid.uuid4().hex
    seen: tuple[str, float] | None = None  # the other's ETag, and since when we see it unchanged
    while True:
        try:
            etag = _write(bucket, holder, IfNoneMatch="*")
            break
        except ClientError as error:
            if code_of(error) not in _LOST:
                raise
        try:
            other = s3.head_object(Bucket=bucket, Key=LOCK)["ETag"]
            if seen is None or seen[0] != other:
                seen = (other, time.monotonic())
            # Our own clock measures how long the same holder stands: no clock of another machine counts.
            if time.monotonic() - seen[1] > HELD_SECONDS:
                etag = _write(bucket, holder, IfMatch=other)
                break
        except ClientError as error:
            if code_of(error) not in _LOST | {"404", "NoSuchKey"}:
                raise
        if time.monotonic() > deadline:
            raise TimedOut(f"another run is changing the notifications of bucket {bucket} (object {LOCK})")
        time.sleep(random.uniform(0.02, 0.2))  # noqa: S311 - jitter, no secret
    try:
        yield
    finally:
        try:
            if s3.head_object(Bucket=bucket, Key=LOCK)["ETag"] == etag:
                s3.delete_object(Bucket=bucket, Key=LOCK)
        except ClientError as error:
            if code_of(error) not in {"404", "NoSuchKey"}:
                raise


def _write(bucket: str, holder: str, **condition: str) -> str:
    body = json.dumps({"holder": holder}).encode()
    return str(client("s3").put_object(Bucket=bucket, Key=LOCK, Body=body, **condition)["ETag"])
