"""Incidents in the book: each is told of once, kept up to date, and its end is told; restarts repeat nothing.

trouble ──▶ row `incident:{key}` ──▶ told (one message) ──▶ changed: the message is updated
                                                       └──▶ gone: recovery note, row closed
again within an hour: the old message is updated, no new one

The row says what was last told, and stays open until its end is told too: what the channel did not take is told
at the next check.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from postroom.errors import classify
from postroom.health.judgement import Trouble
from postroom.ledger import Book
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, update, wire

log = logging.getLogger("postroom.health")
CLAIM_MS = 60_000  # how long one who tells keeps others from telling the same
OLD_NEWS_MS = 24 * 3_600_000  # an end that could not be told for so long is not told any more


@dataclass(frozen=True)
class Incident:
    """A trouble, and what people were told of it."""

    trouble: Trouble
    begun_at: int
    message: str | None = None  # how the channel knows the message
    told_at: int | None = None
    ended_at: int | None = None
    said: str = ""  # what the message says

    @property
    def over(self) -> bool:
        return self.ended_at is not None

    @property
    def to_say(self) -> str:
        """What the message should say."""
        about = self.trouble
        return sha256("\0".join((about.severity, about.title, about.detail, str(self.over))).encode()).hexdigest()


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
        for incident in self._listed():
            if incident.trouble.key not in troubles and mine(incident.trouble.key):
                self._recover(incident)
        return self.open()

    def open(self) -> list[Incident]:
        """Oldest first."""
        return [each for each in self._listed() if not each.over]

    def _listed(self) -> list[Incident]:
        """Those that are open, and those whose end is yet to be told."""
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
        remove = ["ended_at", *(("message", "told_at", "said") if fresh else ())]
        unchanged = "attribute_not_exists(#key)" if before is None else ""
        if before is not None and before.over:
            unchanged = "attribute_exists(#ended_at)"  # the one that reopens it tells of it
        item = self._write(trouble.key, changes, remove, only=unchanged)
        if item is None:
            return  # another check is at it
        incident = _incident(item)
        if incident.message is None:
            self._post(incident, first=fresh)
            return
        self._update(incident)
        again = incident.told_at is not None and incident.told_at < now - self._repeat_ms
        if again and self._reply(incident, f"Still so, after {(now - incident.begun_at) // 60_000} min."):
            self._write(trouble.key, {"told_at": now}, ["claimed_at"])

    def _post(self, incident: Incident, *, first: bool) -> None:
        key = incident.trouble.key
        if first:
            log.warning("incident %s (%s): %s", key, incident.trouble.severity, incident.trouble.title)
        if not self._claim(incident):
            return
        told, message = self._try(lambda channel: channel.post(incident))
        news = {"message": message, "told_at": self._book.clock.now_ms(), "said": incident.to_say} if told else {}
        self._write(key, news, ["claimed_at"])

    def _update(self, incident: Incident) -> bool:
        """Whether the message says how things stand now. Two who update it write the same, so nobody claims it."""
        if incident.said == incident.to_say:
            return True
        told, _ = self._try(lambda channel: channel.update(incident))
        if told:
            self._write(incident.trouble.key, {"said": incident.to_say})
        return told

    def _reply(self, incident: Incident, text: str) -> bool:
        """Whether it was told now, by us. Whoever gets True writes down that it was."""
        if not self._claim(incident):
            return False
        told, _ = self._try(lambda channel: channel.reply(incident, text))
        if not told:
            self._write(incident.trouble.key, {}, ["claimed_at"])
        return told

    def _recover(self, seen: Incident) -> None:
        key, now = seen.trouble.key, self._book.clock.now_ms()
        ended_now = {"ended_at": now, "state": "done"}
        item = self._write(key, ended_now, only="attribute_exists(#open) AND attribute_not_exists(#ended_at)")
        if item is not None:
            log.info("incident %s is over after %d min", key, (now - seen.begun_at) // 60_000)
        elif (item := self._find(key)) is None or "open" not in item or "ended_at" not in item:
            return  # the index lags: its end was told, or it has come back
        ended = _incident(item)
        ended_at = ended.ended_at or now
        if ended.message is not None and self._channel is not None and now - ended_at < OLD_NEWS_MS:
            minutes = (ended_at - ended.begun_at) // 60_000
            if not self._update(ended) or not self._reply(ended, f"Recovered, after {minutes} min."):
                return  # the next check tries again
        self._write(key, {}, ["open", "claimed_at"], seen={"ended_at": ended_at})

    def _claim(self, incident: Incident) -> bool:
        """Whether this check is the one that tells, of an incident that is still as it was seen."""
        if self._channel is None:
            return False
        now = self._book.clock.now_ms()
        seen = {"message": incident.message, "told_at": incident.told_at, "ended_at": incident.ended_at}
        free = "attribute_exists(#open) AND (attribute_not_exists(#claimed_at) OR #claimed_at < :old)"
        item = self._write(incident.trouble.key, {"claimed_at": now}, only=free, seen=seen, old=now - CLAIM_MS)
        return item is not None

    def _try(self, tell: Callable[[Channel], Any]) -> tuple[bool, Any]:
        """Whether the channel was told, and what it answers. A check never fails for that."""
        if self._channel is None:
            return False, None
        try:
            return True, tell(self._channel)
        except Exception as error:
            log.warning("the channel could not be told: %s", classify(error))
            return False, None

    def _find(self, key: str) -> Item | None:
        answer = self._db.get_item(TableName=self._table, Key={"key": wire(f"incident:{key}")}, ConsistentRead=True)
        return plain_item(answer["Item"]) if answer.get("Item") else None

    def _write(
        self,
        key: str,
        changes: Mapping[str, Any],
        remove: Iterable[str] = (),
        *,
        only: str = "",
        seen: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Item | None:
        """The row after the change; None when `only` does not hold, or it is not as `seen`: somebody was quicker."""
        gone, before = list(remove), dict(seen or {})
        parts = ["SET " + ", ".join(f"#{name} = :{name}" for name in changes)] if changes else []
        parts += ["REMOVE " + ", ".join(f"#{name}" for name in gone)] if gone else []
        same = [f"#{n} = :seen_{n}" if v is not None else f"attribute_not_exists(#{n})" for n, v in before.items()]
        condition = " AND ".join([*([only] if only else []), *same])
        known = {f"seen_{name}": value for name, value in before.items() if value is not None}
        request: Item = {
            "TableName": self._table,
            "Key": {"key": wire(f"incident:{key}")},
            "UpdateExpression": " ".join(parts),
            "ExpressionAttributeNames": {
                f"#{name}": name for name in (*changes, *gone, *re.findall(r"#(\w+)", condition))
            },
        }
        if values := {**changes, **known, **more}:
            request["ExpressionAttributeValues"] = {f":{name}": wire(value) for name, value in values.items()}
        if condition:
            request["ConditionExpression"] = condition
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
        item.get("said", ""),
    )
