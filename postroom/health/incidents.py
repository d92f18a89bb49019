"""Incidents in the book: each is told of once, kept up to date, and its end is told; restarts repeat nothing.

trouble ──▶ row `incident:{key}` ──▶ told (one message) ──▶ changed: the message is updated
                                                       └──▶ gone: recovery note, row closed
again within an hour: the old message is updated, no new one
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from postroom.errors import classify
from postroom.health.judgement import Trouble
from postroom.ledger import Book
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, update, wire

log = logging.getLogger("postroom.health")
CLAIM_MS = 60_000  # how long one who tells keeps others from telling the same


@dataclass(frozen=True)
class Incident:
    """A trouble, and what people were told of it."""

    trouble: Trouble
    begun_at: int
    message: str | None = None  # how the channel knows the message
    told_at: int | None = None
    ended_at: int | None = None

    @property
    def over(self) -> bool:
        return self.ended_at is not None


class Channel(Protocol):
    """Where people are told. Each call may fail; it is then tried at the next check."""

    def post(self, incident: Incident) -> str: ...

    def update(self, incident: Incident) -> None: ...

    def reply(self, incident: Incident, text: str) -> None: ...


class Incidents:
    """The incidents of one post room."""

    def __init__(self, book: Book, channel: Channel | None) -> None:
        self._book, self._db, self._table, self._channel = book, book.dynamodb, book.names.leases, channel
        self._repeat_ms = int(book.settings.health_repeat_minutes * 60_000)

    def settle(self, found: Iterable[Trouble], mine: Callable[[str], bool] = lambda key: True) -> list[Incident]:
        """Makes the incidents agree with the troubles found; those that are open now. `mine` says which ones the
        caller looks after: only those can be over because they were not found."""
        troubles = {trouble.key: trouble for trouble in found}
        for trouble in troubles.values():
            self._go_on(trouble)
        for incident in self.open():
            if incident.trouble.key not in troubles and mine(incident.trouble.key):
                self._recover(incident)
        return self.open()

    def open(self) -> list[Incident]:
        """Oldest first."""
        found = query(
            self._db,
            TableName=self._table,
            IndexName="open",
            KeyConditionExpression="#open = :incident",
            ExpressionAttributeNames={"#open": "open"},
            ExpressionAttributeValues={":incident": wire("incident")},
        )
        return [_incident(item) for item in found]

    def _go_on(self, trouble: Trouble) -> None:
        now = self._book.clock.now_ms()
        item = self._find(trouble.key)
        before = _incident(item) if item is not None else None
        fresh = before is None or (before.ended_at is not None and before.ended_at < now - self._repeat_ms)
        changes: dict[str, Any] = {
            "job": "incident",
            "state": "waiting",
            "open": "incident",
            "severity": trouble.severity,
            "title": trouble.title,
            "detail": trouble.detail,
        }
        if fresh:
            changes |= {"effective_until": now}
        elif before is not None and before.over:
            changes |= {"effective_until": before.begun_at}
        remove = ["ended_at", *(("message", "told_at") if fresh else ())]
        unchanged = "attribute_not_exists(#key)" if before is None else ""
        if before is not None and before.over:
            unchanged = "attribute_exists(#ended_at)"  # the one that reopens it tells of it
        item = self._write(trouble.key, changes, remove, only=unchanged)
        if item is None:
            return  # another check is at it
        incident = _incident(item)
        if incident.message is None:
            self._post(incident, first=fresh)
        elif before is not None and (before.trouble != trouble or before.over):
            self._try(lambda channel: channel.update(incident))
        if incident.message and incident.told_at is not None and incident.told_at < now - self._repeat_ms:
            minutes = (now - incident.begun_at) // 60_000
            if self._claim(incident, "told_at"):
                self._try(lambda channel: channel.reply(incident, f"Still so, after {minutes} min."))

    def _post(self, incident: Incident, *, first: bool) -> None:
        key = incident.trouble.key
        if first:
            log.warning("incident %s (%s): %s", key, incident.trouble.severity, incident.trouble.title)
        if self._channel is None or not self._claim(incident, "claimed_at"):
            return
        message = self._try(lambda channel: channel.post(incident))
        if message:
            self._write(key, {"message": message, "told_at": self._book.clock.now_ms()}, ["claimed_at"])
        else:
            self._write(key, {}, ["claimed_at"])

    def _recover(self, incident: Incident) -> None:
        now = self._book.clock.now_ms()
        ended_now = {"ended_at": now, "state": "done"}
        item = self._write(incident.trouble.key, ended_now, ["open"], only="attribute_exists(#open)")
        if item is None:
            return
        minutes = (now - incident.begun_at) // 60_000
        log.info("incident %s is over after %d min", incident.trouble.key, minutes)
        ended = _incident(item)
        if ended.message:
            self._try(lambda channel: channel.update(ended))
            self._try(lambda channel: channel.reply(ended, f"Recovered, after {minutes} min."))

    def _claim(self, incident: Incident, name: str) -> bool:
        """Whether this check is the one that tells."""
        now = self._book.clock.now_ms()
        again = name == "told_at"
        seen = incident.told_at if again else now - CLAIM_MS
        compare = "#c = :seen" if again else "attribute_not_exists(#m) AND (attribute_not_exists(#c) OR #c < :seen)"
        try:
            update(
                self._db,
                TableName=self._table,
                Key={"key": wire(f"incident:{incident.trouble.key}")},
                UpdateExpression="SET #c = :now",
                ConditionExpression=compare,
                ExpressionAttributeNames={"#c": name, **({} if again else {"#m": "message"})},
                ExpressionAttributeValues={":now": wire(now), ":seen": wire(seen)},
            )
        except ConditionFailed:
            return False
        return True

    def _try(self, tell: Callable[[Channel], Any]) -> Any:
        """What the channel answers; None when it can't be reached: a check never fails for that."""
        if self._channel is None:
            return None
        try:
            return tell(self._channel)
        except Exception as error:
            log.warning("the channel could not be told: %s", classify(error))
            return None

    def _find(self, key: str) -> Item | None:
        answer = self._db.get_item(TableName=self._table, Key={"key": wire(f"incident:{key}")}, ConsistentRead=True)
        return plain_item(answer["Item"]) if answer.get("Item") else None

    def _write(self, key: str, changes: dict[str, Any], remove: Iterable[str], *, only: str = "") -> Item | None:
        """The row after the change; None when `only` does not hold: somebody else was quicker."""
        names = {f"#{name}": name for name in (*changes, *remove)}
        expression = "SET " + ", ".join(f"#{name} = :{name}" for name in changes) if changes else ""
        if gone := list(remove):
            expression += " REMOVE " + ", ".join(f"#{name}" for name in gone)
        request: Item = {
            "TableName": self._table,
            "Key": {"key": wire(f"incident:{key}")},
            "UpdateExpression": expression.strip(),
            "ExpressionAttributeNames": names,
        }
        if changes:
            request["ExpressionAttributeValues"] = {f":{name}": wire(value) for name, value in changes.items()}
        if only:
            request["ConditionExpression"] = only
            if "#key" in only:
                names["#key"] = "key"
        try:
            return update(self._db, **request)
        except ConditionFailed:
            return None


def _incident(item: Item) -> Incident:
    key = str(item["key"]).removeprefix("incident:")
    trouble = Trouble(key, item.get("severity", "critical"), item.get("title", key), item.get("detail", ""))
    return Incident(
        trouble,
        item.get("effective_until", 0),
        item.get("message"),
        item.get("told_at"),
        item.get("ended_at"),
    )
