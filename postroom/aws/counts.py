"""How many messages wait in each queue of this post room."""

from __future__ import annotations

from dataclasses import dataclass

from postroom.aws.clients import client


@dataclass(frozen=True)
class Count:
    """Messages of one queue: to be read, being worked on, and given up on."""

    waiting: int
    in_flight: int
    dead: int


def queue_counts(prefix: str) -> dict[str, Count]:
    """Counts by queue name; the dead letters of a queue are counted with it (SQS's own approximate figures)."""
    sqs = client("sqs", read_timeout=5)
    seen: dict[str, tuple[int, int]] = {}
    for page in sqs.get_paginator("list_queues").paginate(QueueNamePrefix=f"{prefix}-"):
        for url in page.get("QueueUrls", []):
            told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            visible, delayed, hidden = (
                int(told.get(f"ApproximateNumberOfMessages{kind}", 0)) for kind in ("", "Delayed", "NotVisible")
            )
            seen[url.rpartition("/")[2]] = (visible + delayed, hidden)
    return {
        name: Count(waiting, in_flight, sum(seen.get(f"{name}-dlq", (0, 0))))
        for name, (waiting, in_flight) in sorted(seen.items())
        if not name.endswith("-dlq")
    }
