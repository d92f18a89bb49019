"""Deliveries: each recipient of each batch is told at most once, and what is not known is said.

    pending ──claim──▶ sending ──▶ sent
       ▲                 │  ├────▶ failed    (permanently, with the reason)
       └──throttled──────┘  └────▶ unknown   (it may have been sent: settled by an SES event or a person)

A `sending` row whose sender died becomes `unknown`, never `pending`: a blind resend could be a second mail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from postroom.errors import sanitise
from postroom.ledger.clock import Clock
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, update, wire

PAGE = 500
NOT_SENT = "not sent, as a person found"
SENDING_MS = 120_000  # longer than any call to SES may take


@dataclass(frozen=True)
class Delivery:
    """One recipient of one batch."""

    batch: str
    recipient: str
    delivery_id: str
    state: str
    at: int = 0
    reason: str | None = None
    ses_id: str | None = None
    tries: int = 0
    until: int = 0  # sending: when its sender must have ended
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        return self.state in ("sent", "failed", "unknown")

    def abandoned(self, now_ms: int) -> bool:
        """Whether its sender must have died."""
        return self.state == "sending" and now_ms > (self.until or self.at + SENDING_MS)

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Delivery:
        return cls(**{name: item[name] for name in cls.__dataclass_fields__ if name in item})


def delivery_id(batch: str, recipient: str) -> str:
    """The tag that the mail carries, the same for every try."""
    return uuid5(NAMESPACE_URL, f"postroom:{batch}\n{recipient}").hex


class Deliveries:
    """The delivery table."""

    def __init__(self, dynamodb: Any, table: str, *, clock: Clock) -> None:
        self._db, self.table, self._clock = dynamodb, table, clock

    def claim(self, batch: str, recipient: str, *, detail: Mapping[str, Any] | None = None) -> tuple[Delivery, bool]:
        """The delivery, and whether this caller (and no other) may send it now."""
        now = self._clock.now_ms()
        request = self._request(
            batch,
            recipient,
            "SET #state = :sending, #at = :now, delivery_id = :id, tries = if_not_exists(tries, :zero) + :one, "
            f"detail = {':detail' if detail else 'if_not_exists(detail, :detail)'}",
            "attribute_not_exists(#state) OR #state = :pending",
            {
                ":sending": "sending",
                ":pending": "pending",
                ":now": now,
                ":id": delivery_id(batch, recipient),
                ":zero": 0,
                ":one": 1,
                ":detail": dict(detail or {}),
            },
        )
        try:
            return Delivery.of(update(self._db, **request)), True
        except ConditionFailed as failed:
            assert failed.item is not None
            found = Delivery.of(failed.item)
            return (self.give_up(found) if found.abandoned(now) else found), False

    def plan(self, batch: str, recipient: str, *, detail: Mapping[str, Any] | None = None) -> Delivery:
        """Write down that this recipient is to be told; nothing changes if that is known."""
        request = self._request(
            batch,
            recipient,
            "SET #state = :pending, #at = :now, delivery_id = :id, detail = :detail",
            "attribute_not_exists(#state)",
            {
                ":pending": "pending",
                ":now": self._clock.now_ms(),
                ":id": delivery_id(batch, recipient),
                ":detail": dict(detail or {}),
            },
        )
        try:
            return Delivery.of(update(self._db, **request))
        except ConditionFailed as failed:
            assert failed.item is not None
            return Delivery.of(failed.item)

    def sent(self, batch: str, recipient: str, ses_id: str) -> Delivery:
        return self._move(batch, recipient, "sent", ("sending", "unknown"), ses_id=ses_id)

    def failed(self, batch: str, recipient: str, reason: str) -> Delivery:
        """It will not be delivered; `reason` is for people."""
        return self._move(batch, recipient, "failed", ("pending", "sending"), reason=reason)

    def unknown(self, batch: str, recipient: str, reason: str) -> Delivery:
        return self._move(batch, recipient, "unknown", ("sending",), reason=reason)

    def give_up(self, seen: Delivery) -> Delivery:
        """A delivery whose sender died is unknown from now on, unless somebody has moved it meanwhile."""
        request = self._request(
            seen.batch,
            seen.recipient,
            "SET #state = :unknown, #at = :now, reason = :reason",
            "#state = :sending AND #at = :seen",
            {
                ":unknown": "unknown",
                ":sending": "sending",
                ":now": self._clock.now_ms(),
                ":seen": seen.at,
                ":reason": "its sender died while sending",
            },
        )
        try:
            return Delivery.of(update(self._db, **request))
        except ConditionFailed as failed:
            assert failed.item is not None
            return Delivery.of(failed.item)

    def pending_again(self, batch: str, recipient: str, reason: str) -> Delivery:
        """It was surely not sent (an explicit throttle): it may be tried again."""
        return self._move(batch, recipient, "pending", ("sending",), reason=reason)

    def retry_failed(self, batch: str, recipient: str) -> Delivery:
        """A person asks for a failed one to be tried again."""
        return self._move(batch, recipient, "pending", ("failed",))

    def decide(self, batch: str, recipient: str, *, sent: bool) -> Delivery:
        """A person knows what became of an unknown one; what was not sent may be asked for again."""
        if sent:
            return self._move(batch, recipient, "sent", ("unknown",))
        return self._move(batch, recipient, "failed", ("unknown",), reason=NOT_SENT)

    def settle(self, delivery_tag: str, state: str, *, ses_id: str = "", reason: str | None = None) -> Delivery | None:
        """What an SES event says of the delivery with that tag; None when we know no such one."""
        found = next(
            query(
                self._db,
                TableName=self.table,
                IndexName="by_id",
                KeyConditionExpression="delivery_id = :id",
                ExpressionAttributeValues={":id": wire(delivery_tag)},
            ),
            None,
        )
        if found is None:
            return None
        allowed = ("sending", "unknown") if state == "sent" else ("sending", "unknown", "sent")
        return self._move(found["batch"], found["recipient"], state, allowed, ses_id=ses_id or None, reason=reason)

    def find(self, batch: str, recipient: str) -> Delivery | None:
        answer = self._db.get_item(
            TableName=self.table, Key={"batch": wire(batch), "recipient": wire(recipient)}, ConsistentRead=True
        )
        return Delivery.of(plain_item(answer["Item"])) if answer.get("Item") else None

    def of_batch(self, batch: str) -> Iterator[Delivery]:
        for item in query(
            self._db,
            TableName=self.table,
            KeyConditionExpression="#batch = :b",
            ExpressionAttributeNames={"#batch": "batch"},
            ExpressionAttributeValues={":b": wire(batch)},
            ConsistentRead=True,
            Limit=PAGE,  # a batch may be long; no more than this of it is in memory
        ):
            yield Delivery.of(item)

    def _move(
        self,
        batch: str,
        recipient: str,
        state: str,
        allowed: tuple[str, ...],
        *,
        ses_id: str | None = None,
        reason: str | None = None,
    ) -> Delivery:
        values: dict[str, Any] = {":to": state, ":now": self._clock.now_ms()}
        setting = "SET #state = :to, #at = :now"
        if ses_id is not None:
            setting, values = setting + ", ses_id = :ses", {**values, ":ses": ses_id}
        if reason is not None:
            setting, values = setting + ", reason = :reason", {**values, ":reason": sanitise(reason)}
        elif state == "sent":
            setting += " REMOVE reason"
        places = {f":from{n}": was for n, was in enumerate(allowed)}
        request = self._request(batch, recipient, setting, f"#state IN ({', '.join(places)})", {**values, **places})
        try:
            return Delivery.of(update(self._db, **request))
        except ConditionFailed as failed:
            if failed.item is None:
                raise
            return Delivery.of(failed.item)

    def _request(
        self, batch: str, recipient: str, expression: str, condition: str, values: Mapping[str, Any], *names: str
    ) -> Item:
        return {
            "TableName": self.table,
            "Key": {"batch": wire(batch), "recipient": wire(recipient)},
            "UpdateExpression": expression,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#state": "state", "#at": "at"} | {f"#{each}": each for each in names},
            "ExpressionAttributeValues": {name: wire(value) for name, value in values.items()},
        }
