"""Looking through the dead-letter queues without taking anything out of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.dead_letters.letter import DeadLetter, read_letter

log = logging.getLogger("postroom.dead_letters")
HIDE_SECONDS = 120  # while we look; a look that is cut short hides letters no longer than this
MOST = 20_000


def dead_letter_queues(names: Names) -> dict[str, str]:
    """The URL of each dead-letter queue, by the name of the queue it belongs to."""
    pages = client("sqs").get_paginator("list_queues").paginate(QueueNamePrefix=f"{names.prefix}-")
    urls = [url for page in pages for url in page.get("QueueUrls", [])]
    return {url.rpartition("/")[2].removesuffix("-dlq"): url for url in urls if url.endswith("-dlq")}


def look_through(
    queue: str, url: str, names: Names, visit: Callable[[DeadLetter], bool], *, only_one: bool = False
) -> list[str]:
    """Shows each letter once; `visit` says whether it may be taken out for good. Ids of those that stay.

    With `only_one` the look ends as soon as a letter was taken out.
    """
    sqs, seen, stay, taken = client("sqs"), set[str](), list[tuple[str, str]](), 0
    try:
        while len(seen) < MOST:
            answer = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=1,  # asks all of SQS's hosts, not a sample of them
                VisibilityTimeout=HIDE_SECONDS,
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
                MessageAttributeNames=["All"],
            )
            fresh = [raw for raw in answer.get("Messages", []) if raw["MessageId"] not in seen]
            if not fresh:
                break
            for raw in fresh:
                seen.add(raw["MessageId"])
                if visit(read_letter(queue, raw, names)):
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=raw["ReceiptHandle"])
                    taken += 1
                else:
                    stay.append((raw["MessageId"], raw["ReceiptHandle"]))
            if only_one and taken:
                break
    finally:
        _put_back(sqs, url, stay)
    return [each for each, _ in stay]


def _put_back(sqs: Any, url: str, letters: Sequence[tuple[str, str]]) -> None:
    for start in range(0, len(letters), 10):
        entries = [
            {"Id": str(n), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
            for n, (_, receipt) in enumerate(letters[start : start + 10])
        ]
        try:
            sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)
        except Exception as error:
            log.warning("dead letters stay hidden for up to %d s: %s", HIDE_SECONDS, error)
