"""What a message asks for: orders that become runs, and parts that nobody can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from postroom.errors import PostroomError
from postroom.ledger import Event, Work


@dataclass(frozen=True)
class Message:
    """One received copy of an SQS message."""

    queue: str
    url: str
    id: str
    receipt: str
    body: str
    receives: int = 1
    sent_ms: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)  # as SQS has them: type and value

    @classmethod
    def of(cls, queue: str, url: str, raw: Mapping[str, Any]) -> Message:
        system = raw.get("Attributes", {})
        return cls(
            queue,
            url,
            raw["MessageId"],
            raw["ReceiptHandle"],
            raw.get("Body", ""),
            int(system.get("ApproximateReceiveCount", 1)),
            int(system.get("SentTimestamp", 0)),
            raw.get("MessageAttributes") or {},
        )

    def attribute(self, name: str) -> str | None:
        """The text of a message attribute."""
        value = self.attributes.get(name, {}).get("StringValue")
        return str(value) if value is not None else None


@dataclass(frozen=True)
class Order:
    """One piece of work: its key in the book, and the run that does it."""

    key: str
    job: str
    work: Work
    correlation: str
    body: str  # a message body that asks for this order alone
    received: Event | None = None


@dataclass(frozen=True)
class Spoiled:
    """A message, or one record of it, that asks for nothing we can do."""

    body: str
    error: PostroomError
    event: Event | None = None


@dataclass(frozen=True)
class Parcel:
    """A message, unpacked. Nothing in it at all means that it may be thrown away."""

    orders: Sequence[Order] = ()
    spoiled: Sequence[Spoiled] = ()
    ignored: Sequence[str] = ()  # why, for the log

    @property
    def keys(self) -> list[str]:
        return list(dict.fromkeys(order.key for order in self.orders))
