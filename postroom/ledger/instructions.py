"""Instructions: what people asked of a site, each kept until it is carried out, failed or cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from postroom.errors import Missing
from postroom.ledger.clock import Clock
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, transact, update, wire, wire_item

OPEN = ("waiting", "editing")


@dataclass(frozen=True)
class Instruction:
    """One mail's wish. Order is by time received, then message id, never by arrival at the flow."""

    project: str
    message_id: str
    user: str
    thread_id: str
    received_at: int
    sender: str
    subject: str
    text: str
    forwarded: str = ""  # what the sender passed on below it
    kind: str = "edit"  # or publish, undo
    mail_id: str = ""  # the Message-ID header, for replies in the thread
    references: tuple[str, ...] = ()
    reached: str = ""  # the address of the site that the mail came to
    attachments: tuple[Mapping[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()
    status: str = "waiting"  # editing, done, failed, cancelled
    edit: str | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    taken_at: int | None = None  # when the edit began on it
    ended_at: int | None = None
    reopened: int = 0  # how often a person wanted it tried once more; each time has an answer of its own

    @property
    def ended(self) -> bool:
        return self.status not in OPEN

    @property
    def order(self) -> str:
        return f"{self.received_at:015d}#{self.message_id}"

    def as_item(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "references": list(self.references),
            "attachments": [dict(a) for a in self.attachments],
            "left_out": list(self.left_out),
            "outcome": dict(self.outcome),
            "open_order": self.order if self.status in OPEN else None,
        }

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Instruction:
        known = {name: item[name] for name in cls.__dataclass_fields__ if name in item}
        for name in ("references", "attachments", "left_out"):
            known[name] = tuple(known.get(name) or ())
        return cls(**known)


def generation_of(edit: str) -> int:
    """7 of `edit:garden:7`; 0 of what is no edit's key."""
    number = edit.rpartition(":")[2]
    return int(number) if number.isdigit() else 0


def alike(waiting: Sequence[Instruction]) -> list[Instruction]:
    """What one edit takes on of all that waits, oldest first: as far as it is the same kind of wish."""
    return list(takewhile(lambda one: one.kind == waiting[0].kind, waiting))


class Instructions:
    """The instruction table, and the site's count of what was said.

    Each row keeps the generation of the newest edit that took it. An older one, asleep until just now, changes nothing.
    """

    def __init__(self, dynamodb: Any, table: str, leases_table: str, *, clock: Clock) -> None:
        self._db, self.table, self._leases, self._clock = dynamodb, table, leases_table, clock

    def enter(self, instruction: Instruction, *, noted_on: str | None = None) -> bool:
        """Write it down and raise the site's `latest_seq`, both or neither; False when it was there already.

        The row `noted_on` learns of it in the same transaction: whatever becomes of that work, this is known.
        """
        put = {
            "TableName": self.table,
            "Item": wire_item(instruction.as_item()),
            "ConditionExpression": "attribute_not_exists(message_id)",
        }
        raise_seq = {
            "TableName": self._leases,
            "Key": {"key": wire(f"site:{instruction.project}")},
            "UpdateExpression": "SET latest_seq = if_not_exists(latest_seq, :zero) + :one, "
            "version = if_not_exists(version, :zero) + :one, phase = if_not_exists(phase, :idle), "
            "#state = if_not_exists(#state, :waiting)",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {
                ":zero": wire(0),
                ":one": wire(1),
                ":idle": wire("idle"),
                ":waiting": wire("waiting"),
            },
        }
        try:
            note = [{"Update": self._note(instruction, noted_on)}] if noted_on else []
            transact(self._db, [{"Put": put}, {"Update": raise_seq}, *note])
        except ConditionFailed as failed:
            if failed.position != 0:
                raise Missing(f"the book has no {noted_on}") from None
            return False
        return True

    def _note(self, instruction: Instruction, key: str) -> Item:
        known = {"instruction": instruction.message_id, "project": instruction.project, "user": instruction.user}
        return {
            "TableName": self._leases,
            "Key": {"key": wire(key)},
            "UpdateExpression": "SET outcome = :outcome",
            "ConditionExpression": "attribute_exists(#state)",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {":outcome": wire({**known, "thread_id": instruction.thread_id})},
        }

    def find(self, project: str, message_id: str) -> Instruction | None:
        answer = self._db.get_item(
            TableName=self.table,
            Key={"project": wire(project), "message_id": wire(message_id)},
            ConsistentRead=True,
        )
        return Instruction.of(plain_item(answer["Item"])) if answer.get("Item") else None

    def unfinished(self, project: str) -> list[Instruction]:
        """Everything said and not yet carried out, oldest first. Read consistently: nothing is missed."""
        found = query(
            self._db,
            TableName=self.table,
            IndexName="unfinished",
            KeyConditionExpression="#project = :p",
            ExpressionAttributeNames={"#project": "project"},
            ExpressionAttributeValues={":p": wire(project)},
            ConsistentRead=True,
        )
        return [Instruction.of(item) for item in found]

    def of_project(self, project: str) -> list[Instruction]:
        """All instructions of a site, oldest first (its history)."""
        found = query(
            self._db,
            TableName=self.table,
            KeyConditionExpression="#project = :p",
            ExpressionAttributeNames={"#project": "project"},
            ExpressionAttributeValues={":p": wire(project)},
            ConsistentRead=True,
        )
        return sorted((Instruction.of(item) for item in found), key=lambda i: i.order)

    def taken(self, instructions: Sequence[Instruction], edit: str) -> list[Instruction]:
        """Note that an edit works on these; those that neither ended meanwhile nor are a newer edit's."""
        change = "SET #status = :status, edit = :edit, taken_at = :now, edit_generation = :generation"
        values = {":status": "editing", ":edit": edit, ":now": self._clock.now_ms()}
        return [one for one in instructions if self._set(one, change, values, by=edit)]

    def waiting_again(self, instructions: Sequence[Instruction], edit: str) -> None:
        """Note that an edit let go of these; the next one gathers them."""
        for instruction in instructions:
            self._set(instruction, "SET #status = :status REMOVE edit", {":status": "waiting"}, by=edit)

    def end(
        self,
        instruction: Instruction,
        status: str,
        *,
        edit: str | None = None,
        outcome: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Its final state, once; False when it had one already, or a newer edit than the given one took it."""
        return self._set(
            instruction,
            "SET #status = :status, ended_at = :now, outcome = :outcome, reason = :reason, edit = :edit "
            "REMOVE open_order",
            {
                ":status": status,
                ":now": self._clock.now_ms(),
                ":outcome": dict(outcome or {}),
                ":reason": reason,
                ":edit": edit or instruction.edit,
            },
            by=edit,
        )

    def reopen(self, instruction: Instruction) -> bool:
        """Put one that failed or was cancelled back among the waiting; False when it is there already."""
        request: Item = {
            "TableName": self.table,
            "Key": {"project": wire(instruction.project), "message_id": wire(instruction.message_id)},
            "UpdateExpression": "SET #status = :waiting, open_order = :order, reopened = :times "
            "REMOVE edit, outcome, reason, ended_at",
            "ConditionExpression": "#status IN (:failed, :cancelled)",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {
                ":waiting": wire("waiting"),
                ":order": wire(instruction.order),
                ":times": wire(instruction.reopened + 1),
                ":failed": wire("failed"),
                ":cancelled": wire("cancelled"),
            },
        }
        try:
            update(self._db, **request)
        except ConditionFailed:
            return False
        return True

    def _set(
        self, instruction: Instruction, expression: str, values: Mapping[str, Any], *, by: str | None = None
    ) -> bool:
        condition = "attribute_exists(open_order)"
        if by is not None:
            condition += " AND (attribute_not_exists(edit_generation) OR edit_generation <= :generation)"
            values = {**values, ":generation": generation_of(by)}
        request: Item = {
            "TableName": self.table,
            "Key": {"project": wire(instruction.project), "message_id": wire(instruction.message_id)},
            "UpdateExpression": expression,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {name: wire(value) for name, value in values.items()},
        }
        try:
            update(self._db, **request)
        except ConditionFailed:
            return False
        return True
