"""The lease table itself: reading rows, and writing one together with its event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from postroom.errors import Missing
from postroom.ledger.clock import Clock
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, transact, update, wire
from postroom.ledger.events import Event, EventLog
from postroom.ledger.rows import Row


class LeaseTable:
    """Rows by key."""

    def __init__(
        self, dynamodb: Any, table: str, events: EventLog, *, clock: Clock, promise: float, max_attempts: int
    ) -> None:
        self._db, self.table, self._events, self._clock = dynamodb, table, events, clock
        self.promise, self.max_attempts = promise, max_attempts

    # looking

    def read(self, key: str) -> Row:
        """The row of a key; Missing when there is none."""
        row = self.find(key)
        if row is None:
            raise Missing(f"the book has no {key}")
        return row

    def find(self, key: str) -> Row | None:
        answer = self._db.get_item(TableName=self.table, Key={"key": wire(key)}, ConsistentRead=True)
        return Row.of(plain_item(answer["Item"])) if answer.get("Item") else None

    def find_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """Rows by key, those that exist."""
        found: dict[str, Row] = {}
        unique = list(dict.fromkeys(keys))
        for start in range(0, len(unique), 100):
            asked: Any = {
                self.table: {
                    "Keys": [{"key": wire(key)} for key in unique[start : start + 100]],
                    "ConsistentRead": True,
                }
            }
            while asked:
                answer = self._db.batch_get_item(RequestItems=asked)
                for item in answer.get("Responses", {}).get(self.table, []):
                    row = Row.of(plain_item(item))
                    found[row.key] = row
                asked = answer.get("UnprocessedKeys")
        return found

    def unpaid(self, job: str) -> Iterator[Row]:
        """Open rows of a job whose time is over. Candidates only: the index may lag, the row decides."""
        now = self._clock.now_ms()
        for item in query(
            self._db,
            TableName=self.table,
            IndexName="open",
            KeyConditionExpression="#open = :job AND #until <= :now",
            ExpressionAttributeNames={"#open": "open", "#until": "effective_until"},
            ExpressionAttributeValues={":job": wire(job), ":now": wire(now)},
        ):
            yield Row.of(item)

    def note_run(self, key: str, run_id: str | None, *, untouched_since: int | None = None, anew: bool = False) -> bool:
        """Remember which run is asked for, and when; False when it ended, or was touched since, and nothing is written.

        Of several who look after the same row, `untouched_since` lets one go on. Without a run it was asked in vain.
        It is counted when that run was not known yet, or is begun `anew`: who asks once more changes nothing.
        """
        condition = "attribute_exists(#open)"
        change, names = (
            "SET #touched = :now, #asked = if_not_exists(#asked, :zero) + :one",
            ["touched", "asked", "open"],
        )
        values: dict[str, Any] = {":now": self._clock.now_ms(), ":zero": 0, ":one": 1}
        if run_id is not None:
            change, values, names = f"{change}, #run = :run", {**values, ":run": run_id}, [*names, "run"]
            if not anew:
                condition = f"{condition} AND (attribute_not_exists(#run) OR #run <> :run)"
        if untouched_since is not None:
            condition, values = f"{condition} AND #touched = :seen", {**values, ":seen": untouched_since}
        try:
            update(self._db, **self._change(key, change, condition, values, names=names))
        except ConditionFailed as failed:
            if anew or run_id is None or failed.item is None:
                return False
            row = Row.of(failed.item)
            return not row.terminal and row.run_id == run_id
        return True

    # the writing

    _ATTRIBUTES: ClassVar = {
        "until": "effective_until",
        "touched": "touched_at",
        "entered": "entered_at",
        "ended": "ended_at",
        "max": "max_attempts",
        "run": "run_id",
    }

    def _change(
        self, key: str, expression: str, condition: str, values: Mapping[str, Any], *, names: Sequence[str]
    ) -> Item:
        return {
            "TableName": self.table,
            "Key": {"key": wire(key)},
            "UpdateExpression": expression,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{name}": self._ATTRIBUTES.get(name, name) for name in names},
            "ExpressionAttributeValues": {name: wire(value) for name, value in values.items()},
        }

    def _write(self, write: Item, event: Event | None, also: Sequence[Item] = ()) -> None:
        """One conditional write, with the event that tells of it in the same transaction."""
        (kind, request), *_ = write.items()
        request = {**request, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        if event is None and not also and kind == "Update":
            update(self._db, **{k: v for k, v in request.items() if k != "ReturnValuesOnConditionCheckFailure"})
            return
        writes: list[Item] = [{kind: request}, *also]
        if event is not None:
            writes.append(self._events.put(self._events.stamped(event)))
        transact(self._db, writes)
