"""Threads and interruptions: what was said before, and what was cut short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from postroom.ledger.clock import Clock
from postroom.ledger.dynamo import ConditionFailed, plain_item, query, update, wire, wire_item

KEPT_BYTES = 8_000  # of one entry; a thread is context for an agent, the whole mail is in S3
KEPT_ENTRIES = 30
KEPT_IN_ALL = 300_000  # bytes; a row holds 400 KB
INTERRUPTION_DAYS = 7


@dataclass(frozen=True)
class Said:
    """One mail of a thread, theirs or ours."""

    message_id: str
    at: int
    who: str
    text: str


class Threads:
    """Conversations by mail, each site's for itself: a mail that names another site's thread learns nothing of it."""

    def __init__(self, dynamodb: Any, table: str, interruptions: str, *, clock: Clock) -> None:
        self._db, self.table, self._interruptions, self._clock = dynamodb, table, interruptions, clock

    def add(self, project: str, thread_id: str, said: Said) -> None:
        """Add to the thread, once per message id."""
        entry = {"at": said.at, "who": said.who[:320], "text": _cut(said.text)}
        key = _key(project, thread_id)
        for _ in range(2):
            try:
                update(
                    self._db,
                    TableName=self.table,
                    Key=key,
                    UpdateExpression="SET entries.#id = :entry",
                    ConditionExpression="attribute_exists(entries) AND attribute_not_exists(entries.#id)",
                    ExpressionAttributeNames={"#id": said.message_id},
                    ExpressionAttributeValues={":entry": wire(entry)},
                )
                break
            except ConditionFailed as failed:
                if failed.item and said.message_id in failed.item.get("entries", {}):
                    return
                self._begin(key)
        self._shorten(project, thread_id)

    def _begin(self, key: dict[str, Any]) -> None:
        try:
            update(
                self._db,
                TableName=self.table,
                Key=key,
                UpdateExpression="SET entries = :none",
                ConditionExpression="attribute_not_exists(entries)",
                ExpressionAttributeValues={":none": wire({})},
            )
        except ConditionFailed:
            pass  # another began it

    def _shorten(self, project: str, thread_id: str) -> None:
        entries = self.read(project, thread_id)
        size = sum(map(_size, entries))
        for position, old in enumerate(entries):
            if len(entries) - position <= KEPT_ENTRIES and size <= KEPT_IN_ALL:
                break
            size -= _size(old)
            update(
                self._db,
                TableName=self.table,
                Key=_key(project, thread_id),
                UpdateExpression="REMOVE entries.#id",
                ExpressionAttributeNames={"#id": old.message_id},
            )

    def read(self, project: str, thread_id: str) -> list[Said]:
        """What was said, oldest first."""
        answer = self._db.get_item(TableName=self.table, Key=_key(project, thread_id), ConsistentRead=True)
        entries = plain_item(answer["Item"]).get("entries", {}) if answer.get("Item") else {}
        found = [Said(message_id, e["at"], e["who"], e["text"]) for message_id, e in entries.items()]
        return sorted(found, key=lambda said: (said.at, said.message_id))

    def interrupted(self, project: str, thread_ids: list[str], *, edit: str, by: str, reason: str) -> None:
        """Record that an edit was cut short, and count it in the threads it worked on."""
        now = self._clock.now_ms()
        self._db.put_item(
            TableName=self._interruptions,
            Item=wire_item(
                {
                    "project": project,
                    "at": f"{now:015d}#{edit}",
                    "edit": edit,
                    "by": by,
                    "reason": reason,
                    "threads": thread_ids,
                    "ttl": now // 1000 + INTERRUPTION_DAYS * 86400,
                }
            ),
        )
        for thread_id in thread_ids:
            update(
                self._db,
                TableName=self.table,
                Key=_key(project, thread_id),
                UpdateExpression="ADD interruptions :one",
                ExpressionAttributeValues={":one": wire(1)},
            )

    def interruptions_of(self, project: str) -> list[dict[str, Any]]:
        """Interruptions of a site in the last days, oldest first."""
        return list(
            query(
                self._db,
                TableName=self._interruptions,
                KeyConditionExpression="#project = :p",
                ExpressionAttributeNames={"#project": "project"},
                ExpressionAttributeValues={":p": wire(project)},
            )
        )


def _key(project: str, thread_id: str) -> dict[str, Any]:
    return {"thread_id": wire(f"{project}:{thread_id}")}


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:KEPT_BYTES].decode("utf-8", "ignore")


def _size(said: Said) -> int:
    return sum(len(part.encode()) for part in (said.message_id, said.who, said.text)) + 50
