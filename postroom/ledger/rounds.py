"""Deliveries by the hundred: the same rules as for one, in a fraction of the requests.

A transaction holds for all of its rows or for none. When one row is not as expected, the rows are
written one by one, so that each still gets its own answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from postroom.errors import sanitise
from postroom.ledger.deliveries import Deliveries, Delivery, delivery_id
from postroom.ledger.dynamo import ConditionFailed, Item, code_of, plain_item, transact, update, wire

MOST = 100  # rows of one transaction, and of one BatchGetItem


@dataclass(frozen=True)
class Ending:
    """How the try of one delivery ended."""

    recipient: str
    state: str  # sent, failed, unknown, pending
    reason: str | None = None
    ses_id: str | None = None


class Rounds(Deliveries):
    """The delivery table, for many recipients of one batch at a time."""

    def look(self, batch: str, recipients: Sequence[str]) -> dict[str, Delivery]:
        """The deliveries there are, by recipient."""
        found: dict[str, Delivery] = {}
        for at in range(0, len(recipients), MOST):
            keys = [{"batch": wire(batch), "recipient": wire(each)} for each in recipients[at : at + MOST]]
            wanted: Any = {self.table: {"Keys": keys, "ConsistentRead": True}}
            while wanted:
                answer = self._db.batch_get_item(RequestItems=wanted)
                for item in answer.get("Responses", {}).get(self.table, []):
                    delivery = Delivery.of(plain_item(item))
                    found[delivery.recipient] = delivery
                wanted = answer.get("UnprocessedKeys")
        return found

    def plan_all(self, batch: str, recipients: Sequence[str], *, detail: Mapping[str, Any]) -> list[Delivery]:
        """The deliveries of these recipients, written down as pending where they were not known."""
        now, planned = self._clock.now_ms(), []
        for at in range(0, len(recipients), MOST):
            some = recipients[at : at + MOST]
            rows = [
                {"batch": batch, "recipient": each, "delivery_id": delivery_id(batch, each), "state": "pending"}
                | {"at": now, "detail": dict(detail)}
                for each in some
            ]
            if self._all_or_none([{"Put": self._put(row)} for row in rows]):
                planned += [Delivery.of(row) for row in rows]
            else:
                planned += [self.plan(batch, each, detail=detail) for each in some]
        return planned

    def claim_all(self, batch: str, recipients: Sequence[str], *, seconds: float) -> list[Delivery]:
        """Those that this caller, and no other, may send now; it must have ended them within `seconds`."""
        now = self._clock.now_ms()
        requests = [self._claim(batch, each, now, now + int(seconds * 1000)) for each in recipients]
        if self._all_or_none([{"Update": request} for request in requests]):
            return [
                Delivery(batch, each, delivery_id(batch, each), "sending", now, until=now + int(seconds * 1000))
                for each in recipients
            ]
        mine = []
        for request in requests:
            try:
                mine.append(Delivery.of(update(self._db, **request)))
            except ConditionFailed:
                continue  # somebody else has it, or has ended it
        return mine

    def end_all(self, batch: str, endings: Iterable[Ending]) -> None:
        """Writes down how the tries ended. What an SES event has settled meanwhile stays as it is."""
        endings = list(endings)
        if not self._all_or_none([{"Update": self._end(batch, ending)} for ending in endings]):
            for ending in endings:
                try:
                    update(self._db, **self._end(batch, ending))
                except ConditionFailed:
                    continue

    def note(self, batch: str, recipient: str, **noted: Any) -> None:
        """Further facts about a row, whatever its state; the row is made if it is missing."""
        names = {f"#n{n}": name for n, name in enumerate(noted)}
        setting = "SET " + ", ".join(f"{place} = :v{n}" for n, place in enumerate(names))
        self._db.update_item(
            TableName=self.table,
            Key={"batch": wire(batch), "recipient": wire(recipient)},
            UpdateExpression=setting,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={f":v{n}": wire(value) for n, value in enumerate(noted.values())},
        )

    def _put(self, row: Mapping[str, Any]) -> Item:
        return {
            "TableName": self.table,
            "Item": {name: wire(value) for name, value in row.items()},
            "ConditionExpression": "attribute_not_exists(#state)",
            "ExpressionAttributeNames": {"#state": "state"},
        }

    def _claim(self, batch: str, recipient: str, now: int, until: int) -> Item:
        return self._request(
            batch,
            recipient,
            "SET #state = :sending, #at = :now, #until = :until, tries = if_not_exists(tries, :zero) + :one",
            "#state = :pending",
            {":sending": "sending", ":pending": "pending", ":now": now, ":until": until, ":zero": 0, ":one": 1},
            "until",
        )

    def _end(self, batch: str, ending: Ending) -> Item:
        values: dict[str, Any] = {":to": ending.state, ":now": self._clock.now_ms(), ":sending": "sending"}
        setting, removed = "SET #state = :to, #at = :now", ["#until"]
        if ending.ses_id:
            setting, values[":ses"] = f"{setting}, ses_id = :ses", ending.ses_id
        if ending.reason:
            setting, values[":reason"] = f"{setting}, reason = :reason", sanitise(ending.reason)
        else:
            removed.append("reason")
        condition = "#state = :sending"
        if ending.state == "sent":  # somebody may have given us up too early
            condition, values[":unknown"] = "#state IN (:sending, :unknown)", "unknown"
        return self._request(
            batch, ending.recipient, f"{setting} REMOVE {', '.join(removed)}", condition, values, "until"
        )

    def _all_or_none(self, writes: Sequence[Mapping[str, Any]]) -> bool:
        """Whether all were written; False when a row was not as expected, or too contended."""
        if not writes:
            return True
        try:
            transact(self._db, writes)
        except ConditionFailed:
            return False
        except ClientError as error:
            if code_of(error) != "TransactionCanceledException":
                raise
            return False
        return True
