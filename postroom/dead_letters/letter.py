"""A dead letter: a message that could not be done, and what is written on its outside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from postroom.aws.names import Names
from postroom.errors import sanitise
from postroom.ledger.clock import iso
from postroom.ledger.entities import NOUNS, entity_of
from postroom.ledger.events import Event

OURS = ("reason", "category", "key", "receives", "at", "queue", "message", "body")  # written on its outside
REASON_CHARACTERS = 2000
_ATTEMPT = re.compile(r"([a-z]+:.+):r(\d{1,6})")  # `task:r1` is the first attempt at a task that is called r1


@dataclass(frozen=True)
class DeadLetter:
    """One message of a dead-letter queue; its id is SQS's."""

    id: str
    queue: str  # the queue it could not be delivered from
    job: str
    body: str
    reason: str
    category: str = "unknown"
    key: str | None = None
    receives: int = 0
    at_ms: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)  # in the form in which they may be sent again

    @property
    def entity(self) -> str:
        """Whom it is about: by its key, else by what can be read of the message itself."""
        if self.key:
            return entity_of(self.job, self.key)
        first = str(self.attributes.get("message", {}).get("StringValue") or self.id)  # the id under which it came in
        return f"{self.job.upper()}#{self.named or f'invalid-{first}'}"

    @property
    def named(self) -> str | None:
        """The id that the message itself speaks of, when it has no key and the sensor never judged it.

        One that the sensor refused may well name another piece of work, which is not to be told of its end.
        """
        return None if self.key or self.attributes.get("reason") else _named(self)

    def listed(self, *, told: bool) -> Event:
        """That it waits for a person: the event that ends its work, unless that was `told` when the work ended.

        The same letter seen twice gives the same event.
        """
        said = {
            "reason": self.reason,
            "category": self.category,
            "receives": self.receives,
            "key": self.key,
            "queue": self.queue,
            "dead_letter": self.id,
            "terminal": True,
        }
        noun = NOUNS.get(self.job, self.job.title())
        known = {name: value for name, value in said.items() if value is not None}
        what = "Dead Letter Listed" if told else f"{noun} Failed"
        return Event(what, self.entity, self.job, known, event_id=f"dead-{self.id}", at_ms=self.at_ms)

    def event(self, what: str, **properties: Any) -> Event:
        """Something that a person decided about it."""
        about = {"dead_letter": self.id, "queue": self.queue, "reason": self.reason, "key": self.key}
        return Event(f"Dead Letter {what}", self.entity, self.job, {**about, **properties})

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "queue": self.queue,
            "job": self.job,
            "entity": self.entity,
            "key": self.key,
            "reason": self.reason,
            "category": self.category,
            "receives": self.receives,
            "at": iso(self.at_ms),
        }

    def next_key(self) -> str | None:
        """The key under which a redrive is done."""
        if self.key is None:
            return None
        died = _ATTEMPT.fullmatch(self.key)
        return f"{died[1]}:r{int(died[2]) + 1}" if died else f"{self.key}:r1"


def read_letter(queue: str, raw: Mapping[str, Any], names: Names) -> DeadLetter:
    """The letter of a message as SQS hands it out; one that SQS itself gave up has no reason written on it."""
    attributes = {name: _sendable(value) for name, value in (raw.get("MessageAttributes") or {}).items()}
    system = raw.get("Attributes") or {}
    said = {name: str(attributes.get(name, {}).get("StringValue", "")) for name in OURS}
    receives = int(said["receives"]) if said["receives"].isdigit() else int(system.get("ApproximateReceiveCount", 1))
    reason = said["reason"] or f"SQS gave it up: received {receives} times, and nobody said why it did not end"
    return DeadLetter(
        id=str(raw["MessageId"]),
        queue=queue,
        job=job_of(queue, names),
        body=raw.get("Body", ""),
        reason=sanitise(reason, limit=REASON_CHARACTERS),
        category=said["category"] or "poison",
        key=said["key"] or None,
        receives=receives,
        at_ms=int(system.get("SentTimestamp", 0)),
        attributes=attributes,
    )


def job_of(queue: str, names: Names) -> str:
    """The kind of work that a queue carries."""
    known = {names.mail_queue: "mail", names.tasks_queue: "task", names.ses_events_queue: "ses"}
    if queue.startswith(names.changes_queue("")):
        return "change"
    return known.get(queue, queue.removeprefix(f"{names.prefix}-"))


def _sendable(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in ("DataType", "StringValue", "BinaryValue") if value.get(name)}


def _named(letter: DeadLetter) -> str | None:
    """The id that the message itself speaks of, when it is one."""
    try:
        body = json.loads(letter.body)
        if letter.job == "task":
            outside, inside = letter.attributes.get("requestId", {}).get("StringValue"), body.get("requestId")
            found = outside or inside
            if inside not in (None, found):
                return None
            return found if re.fullmatch(r"[A-Za-z0-9_-]{1,256}", found) else None
        last = unquote_plus(body["Records"][0]["s3"]["object"]["key"]).rpartition("/")[2]
        return last.removesuffix(".json")[:512] or None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
