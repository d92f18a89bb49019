"""Events: what happened, written in the same transaction as the change of state they tell of.

An event is in the table the moment its change is. It carries `untold` until it was put on the
bus; the sensor tells them (at least once) and takes the mark away.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from postroom.errors import Unavailable
from postroom.ledger.clock import Clock, from_iso, iso
from postroom.ledger.dynamo import ConditionFailed, Item, query, update, wire, wire_item

OVERFLOW_BYTES = 200_000
BUS_BATCH = 10  # PutEvents takes ten
BUS_BYTES = 240_000  # and once took 256 KB in all; OVERFLOW_BYTES keeps one event below that


def new_event_id(now_ms: int) -> str:
    """An id that sorts by time."""
    return f"{now_ms:012x}-{os.urandom(8).hex()}"


@dataclass(frozen=True)
class Event:
    """One event; `entity` is like `TASK#id`."""

    event_type: str
    entity: str
    app: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    effective_until: int | None = None
    at_ms: int = 0
    event_id: str = ""
    tenant: str = "local"

    @property
    def at(self) -> str:
        return iso(self.at_ms)

    def as_json(self) -> dict[str, Any]:
        return {
            "event_id": self.event_id,
            "event_type": self.event_type,
            "at": self.at,
            "tenant": self.tenant,
            "app": self.app,
            "entity": self.entity,
            "effective_until": self.effective_until,
            "properties": dict(self.properties),
        }


class EventLog:
    """The event table and the bus."""

    def __init__(
        self,
        dynamodb: Any,
        table: str,
        *,
        tenant: str,
        clock: Clock,
        ttl_days: int = 90,
        bus: Any = None,
        bus_name: str = "",
        s3: Any = None,
        overflow_bucket: str = "",
    ) -> None:
        self._db, self.table, self.tenant, self._clock, self._ttl_days = dynamodb, table, tenant, clock, ttl_days
        self._bus, self._bus_name = bus, bus_name
        self._s3, self._overflow_bucket = s3, overflow_bucket

    def stamped(self, event: Event) -> Event:
        """The event with its id and time; large properties moved to S3 and pointed at."""
        now = self._clock.now_ms()
        event_id = event.event_id or new_event_id(now)
        properties: Mapping[str, Any] = event.properties
        written = json.dumps(properties, default=str, ensure_ascii=False)
        if len(written.encode()) > OVERFLOW_BYTES and self._s3 is not None:
            key = f"events/{event.entity}/{event_id}.json"
            self._s3.put_object(Bucket=self._overflow_bucket, Key=key, Body=written.encode())
            properties = {"overflow": f"s3://{self._overflow_bucket}/{key}"}
        return Event(
            event.event_type,
            event.entity,
            event.app,
            properties,
            event.effective_until,
            event.at_ms or now,
            event_id,
            self.tenant,
        )

    def put(self, event: Event) -> Item:
        """The write of an event, to be part of a transaction. A replay of the same event is no second one."""
        told = event.as_json()
        at_id = f"{event.at}#{event.event_id}"
        item = wire_item(
            {
                **told,
                "properties": json.dumps(told["properties"], default=str, ensure_ascii=False),
                "PK": f"TENANT#{event.tenant}",
                "SK": f"AT#{at_id}",
                "GSI1PK": event.entity,
                "GSI1SK": at_id,
                "GSI2PK": f"APP#{event.app}",
                "GSI2SK": at_id,
                "GSI3PK": f"EVENT#{event.event_type}",
                "GSI3SK": at_id,
                "GSI4PK": f"TENANT#{event.tenant}#EVENT#{event.event_type}",
                "GSI4SK": at_id,
                "ttl": event.at_ms // 1000 + self._ttl_days * 86400,
                "untold": "yes",
            }
        )
        return {"Put": {"TableName": self.table, "Item": item, "ConditionExpression": "attribute_not_exists(PK)"}}

    def append(self, event: Event) -> Event:
        """Write one event that tells of no change in the book."""
        event = self.stamped(event)
        write = self.put(event)["Put"]
        try:
            self._db.put_item(**write)
        except self._db.exceptions.ConditionalCheckFailedException:
            pass
        return event

    def of_entity(self, entity: str, *, latest: int | None = None) -> list[Event]:
        """Events of an entity, oldest first (or the newest `latest`). For display: decisions read the lease row."""
        found = query(
            self._db,
            TableName=self.table,
            IndexName="GSI1",
            KeyConditionExpression="GSI1PK = :e",
            ExpressionAttributeValues={":e": wire(entity)},
            ScanIndexForward=latest is None,
            **({"Limit": latest, "Total": latest} if latest else {}),
        )
        events = [_event(item) for item in found]
        return events if latest is None else events[::-1]

    def of_type(self, event_type: str, *, since_ms: int) -> Iterator[Event]:
        """Events of a type since a time, oldest first, page by page."""
        for item in query(
            self._db,
            TableName=self.table,
            IndexName="GSI4",
            KeyConditionExpression="GSI4PK = :e AND GSI4SK >= :since",
            ExpressionAttributeValues={
                ":e": wire(f"TENANT#{self.tenant}#EVENT#{event_type}"),
                ":since": wire(iso(since_ms)),
            },
        ):
            yield _event(item)

    def tell(self, limit: int = 100, *, also: Callable[[Event], None] | None = None) -> int:
        """Put untold events on the bus, oldest first, and tell whoever else wants to know; how many were told."""
        found = list(
            query(
                self._db,
                TableName=self.table,
                IndexName="untold",
                KeyConditionExpression="untold = :yes",
                ExpressionAttributeValues={":yes": wire("yes")},
                Total=limit,
                Limit=limit,
            )
        )
        for batch in _batches([(item, self._entry(item)) for item in found]):
            self._tell_batch([item for item, _ in batch], [entry for _, entry in batch], also)
        return len(found)

    def _entry(self, item: Item) -> Item:
        return {
            "EventBusName": self._bus_name,
            "Source": f"postroom.{item['app']}",
            "DetailType": item["event_type"],
            "Detail": json.dumps(_event(item).as_json(), default=str, ensure_ascii=False),
        }

    def _tell_batch(self, items: Sequence[Item], entries: Sequence[Item], also: Callable[[Event], None] | None) -> None:
        answer = self._bus.put_events(Entries=entries)
        refused = 0
        for item, entry in zip(items, answer.get("Entries", []), strict=False):
            if entry.get("ErrorCode"):
                refused += 1
                continue
            if also is not None:
                also(_event(item))
            try:
                update(
                    self._db,
                    TableName=self.table,
                    Key={"PK": wire(item["PK"]), "SK": wire(item["SK"])},
                    UpdateExpression="REMOVE untold",
                    ConditionExpression="attribute_exists(PK)",
                )
            except ConditionFailed:
                pass  # its time to live was over
        if refused:
            raise Unavailable(f"the event bus {self._bus_name} refused {refused} of {len(items)} events")

    def wait_for(self, entity: str, event_type: str, *, seconds: float) -> Event | None:
        """The newest event of that type, waiting for it up to a deadline."""
        deadline = time.monotonic() + seconds
        while True:
            for event in reversed(self.of_entity(entity)):
                if event.event_type == event_type:
                    return event
            if time.monotonic() > deadline:
                return None
            time.sleep(0.1)


def _batches(entries: Sequence[tuple[Item, Item]]) -> Iterator[list[tuple[Item, Item]]]:
    """Events with their entries, so many together as PutEvents takes."""
    batch: list[tuple[Item, Item]] = []
    size = 0
    for item, entry in entries:
        bytes_of = sum(len(str(value).encode("utf-8", "surrogatepass")) for value in entry.values())
        if batch and (len(batch) == BUS_BATCH or size + bytes_of > BUS_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((item, entry))
        size += bytes_of
    if batch:
        yield batch


def _event(item: Mapping[str, Any]) -> Event:
    at_ms = from_iso(item["at"])
    return Event(
        event_type=item["event_type"],
        entity=item["entity"],
        app=item["app"],
        properties=json.loads(item["properties"]) if isinstance(item["properties"], str) else item["properties"],
        effective_until=item.get("effective_until"),
        at_ms=at_ms,
        event_id=item["event_id"],
        tenant=item["tenant"],
    )
