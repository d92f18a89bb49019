"""Leases: who may work on a key, for how long, and how it ended.

    a beat      next beat                 1.0 × promise            1.5 × promise
    │           │                         │                        │
    ├───────────┼─────────────────────────┤                        │
    │ the holder works and renews         │ by its own monotonic   │ by anyone's wall clock
    │                                     │ clock it has stopped   │ the lease is over
    │                                     ├───── slack: skew ──────┤
    0 s         10 s                      30 s                     45 s  → another may take over

The row says `effective_until` = wall clock at the beat + 1.5 × promise. A holder whose beats fail stops
itself at 1.0 × promise, so that clocks may differ by half a promise (15 s of 30 s) and there are still
never two. Skew beyond that is not survived. The fence grows with every holder and never goes back.

Every decision is one conditional write; none is read from an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from postroom.errors import LeaseLost, Missing, PostroomError, sanitise
from postroom.ledger.dynamo import ConditionFailed, Item, update, wire_item
from postroom.ledger.events import Event
from postroom.ledger.lease_table import LeaseTable
from postroom.ledger.rows import Row, State, Work

TAKE_OVER = 1.5
RETRY_DELAY_MS = 2_000


@dataclass(frozen=True)
class Lease:
    """The right to work on a key; good until `stop_at` of the holder's own monotonic clock."""

    key: str
    holder: str
    fence: int
    attempt: int
    stop_at: float
    row: Row


@dataclass(frozen=True)
class Granted:
    lease: Lease


@dataclass(frozen=True)
class Busy:
    """Somebody else holds it, or it may not start before `row.effective_until`."""

    row: Row


@dataclass(frozen=True)
class Ended:
    row: Row


@dataclass(frozen=True)
class Exhausted:
    """Its attempts are used up; nobody holds it."""

    row: Row


Start = Granted | Busy | Ended | Exhausted


class Leases(LeaseTable):
    """Decisions on keys. Safe to share between threads."""

    _MINE = "#state = :working AND #holder = :me AND #fence = :fence"

    # entering

    def enter(self, key: str, job: str, work: Work | None, *, event: Event | None = None) -> tuple[Row, bool]:
        """The row of a key, created `waiting` if it was not there; and whether it was created now."""
        now = self._clock.now_ms()
        fresh = {
            "key": key,
            "job": job,
            "open": job,
            "state": State.WAITING.value,
            "fence": 0,
            "attempts": 0,
            "max_attempts": self.max_attempts,
            "effective_until": 0,
            "entered_at": now,
            "touched_at": now,
            "work": work.as_item() if work else None,
        }
        put = {"TableName": self.table, "Item": wire_item(fresh), "ConditionExpression": "attribute_not_exists(#key)"}
        try:
            self._write({"Put": {**put, "ExpressionAttributeNames": {"#key": "key"}}}, event)
        except ConditionFailed as failed:
            return (Row.of(failed.item) if failed.item else self.read(key)), False
        return Row.of({k: v for k, v in fresh.items() if v is not None}), True

    # holding

    def start(
        self,
        key: str,
        job: str,
        holder: str,
        *,
        event: Event | None = None,
        again: bool = False,
        work: Work | None = None,
    ) -> Start:
        """The lease, if the key is new, waiting, or its holder's time is over; else who has it or how it ended.

        `again` is a person's word that something shall be tried once more, and now: also what has failed, was
        cancelled, or was put off until later. It never costs attempts; when they are used up there is one more.
        """
        old = self.find(key) if again else None
        sent, now = self._clock.monotonic(), self._clock.now_ms()
        until = now + int(self.promise * TAKE_OVER * 1000)
        free = "attribute_not_exists(#key) OR (#state IN (:waiting, :working) AND #until <= :now AND #attempts < #max)"
        if old is not None:
            free = "attribute_exists(#key) AND #fence = :seen AND "
            free += "(#state IN (:waiting, :failed, :cancelled) OR (#state = :working AND #until <= :now))"
        values = {
            ":working": State.WORKING.value,
            ":waiting": State.WAITING.value,
            ":holder": holder,
            ":until": until,
            ":now": now,
            ":one": 1,
            ":zero": 0,
            ":job": job,
            ":limit": self.max_attempts,
        }
        budget = "if_not_exists(#max, :limit)"
        if old is not None:
            values |= {":failed": State.FAILED.value, ":cancelled": State.CANCELLED.value, ":seen": old.fence}
            values[":limit"], budget = max(old.max_attempts, old.attempts + 1), ":limit"
        setting = (
            "SET #state = :working, #holder = :holder, #until = :until, #touched = :now, #open = :job, #job = :job, "
            "#fence = if_not_exists(#fence, :zero) + :one, #attempts = if_not_exists(#attempts, :zero) + :one, "
            f"#max = {budget}, #entered = if_not_exists(#entered, :now)"
        )
        if work is not None:
            setting += ", #work = if_not_exists(#work, :work)"
            values[":work"] = work.as_item()
        change = self._change(
            key,
            setting + " REMOVE #ended, #reason, #outcome, #category" if old is not None else setting,
            free,
            values,
            names=(
                *("key", "state", "holder", "until", "touched", "open", "job", "fence", "attempts", "max", "entered"),
                *(("work",) if work is not None else ()),
                *(("ended", "reason", "outcome", "category") if old is not None else ()),
            ),
        )
        if event is not None:
            event = replace(event, effective_until=until)
        try:
            self._write({"Update": change}, event)
        except ConditionFailed as failed:
            row = Row.of(failed.item) if failed.item else self.read(key)
            if row.holder == holder and row.state is State.WORKING:  # a repeated call of the same holder
                return Granted(self._lease(row, holder, sent))
            return self._refusal(row, now)
        row = self.read(key)
        if row.holder != holder or row.state is not State.WORKING:
            return self._refusal(row, now)
        return Granted(self._lease(row, holder, sent))

    def _refusal(self, row: Row, now: int) -> Start:
        if row.terminal:
            return Ended(row)
        if row.effective_until <= now and row.exhausted:
            return Exhausted(row)
        return Busy(row)

    def _lease(self, row: Row, holder: str, sent: float) -> Lease:
        return Lease(row.key, holder, row.fence, row.attempts, sent + self.promise, row)

    def beat(self, lease: Lease, *, event: Event | None = None) -> Lease:
        """The lease with more time; LeaseLost when it is another's."""
        sent, now = self._clock.monotonic(), self._clock.now_ms()
        if sent >= lease.stop_at:
            raise LeaseLost(f"{lease.key}: the last heartbeat was too long ago; this holder has stopped")
        until = now + int(self.promise * TAKE_OVER * 1000)
        change = self._change(
            lease.key,
            "SET #until = :until",
            self._MINE,
            {":until": until, **self._mine(lease)},
            names=("until", "state", "holder", "fence"),
        )
        try:
            self._write({"Update": change}, replace(event, effective_until=until) if event else None)
        except ConditionFailed as failed:
            raise self._lost(lease, failed.item) from None
        return replace(lease, stop_at=sent + self.promise)

    # ending

    def finish(
        self,
        lease: Lease,
        state: State,
        *,
        outcome: Mapping[str, Any] | None = None,
        reason: str | None = None,
        event: Event | None = None,
        also: Sequence[Item] = (),
    ) -> Row:
        """The row in its final state; `also` are more writes of the transaction. LeaseLost if it is another's."""
        now = self._clock.now_ms()
        change = self._change(
            lease.key,
            "SET #state = :state, #ended = :now, #touched = :now, #outcome = :outcome, #reason = :reason "
            "REMOVE #open, #until, #category",
            self._MINE,
            {
                ":state": state.value,
                ":now": now,
                ":outcome": dict(outcome or {}),
                ":reason": sanitise(reason) if reason else None,
                **self._mine(lease),
            },
            names=("state", "ended", "touched", "outcome", "reason", "open", "until", "holder", "fence", "category"),
        )
        try:
            self._write({"Update": change}, event, also)
        except ConditionFailed as failed:
            old = Row.of(failed.item) if failed.item and failed.position == 0 else self.read(lease.key)
            if old.fence == lease.fence and old.state is state:  # our own write whose answer was lost
                return old
            raise self._lost(lease, failed.item) from None
        return self.read(lease.key)

    def hand_back(self, lease: Lease, *, event: Event | None = None) -> None:
        """Give the work back unfinished, without counting the attempt (a graceful stop is not a failure)."""
        self._let_go(lease, "SET #attempts = #attempts - :one, ", 0, None, event)

    def put_off(
        self, lease: Lease, until_ms: int, reason: str, *, category: str | None = None, event: Event | None = None
    ) -> None:
        """Give the work back until a time that somebody else has named, without counting the attempt."""
        self._let_go(lease, "SET #attempts = #attempts - :one, ", until_ms, reason, event, category)

    def fail(
        self, lease: Lease, error: PostroomError, *, event: Event | None = None, delay_ms: int | None = None
    ) -> Row:
        """The row after a failed attempt: waiting for the next one if a retry can help, else failed."""
        if not error.retryable or lease.row.exhausted:
            return self.finish(
                lease,
                State.FAILED,
                reason=str(error),
                outcome={
                    **error.details,
                    "error": str(error),
                    "category": error.category,
                    "safe": error.safe_message,
                },
                event=event,
            )
        wait = delay_ms if delay_ms is not None else RETRY_DELAY_MS * 2 ** (lease.attempt - 1)
        after = getattr(error, "retry_after", None)
        if after:
            wait = max(wait, int(after * 1000))
        self._let_go(lease, "SET ", self._clock.now_ms() + wait, str(error), event, error.category)
        return self.read(lease.key)

    def _let_go(
        self,
        lease: Lease,
        setting: str,
        not_before: int,
        reason: str | None,
        event: Event | None,
        category: str | None = None,
    ) -> None:
        values = {":waiting": State.WAITING.value, ":nb": not_before, ":now": self._clock.now_ms(), **self._mine(lease)}
        names = ["state", "until", "touched", "holder", "fence"]
        if ":one" not in values and "#attempts" in setting:
            values[":one"] = 1
            names.append("attempts")
        if reason is not None:
            setting += "#reason = :reason, "
            values[":reason"] = sanitise(reason)
            names.append("reason")
        if category is not None:  # so that whoever gives it up can say what it ended with
            setting += "#category = :category, "
            values[":category"] = category
            names.append("category")
        change = self._change(
            lease.key,
            setting + "#state = :waiting, #until = :nb, #touched = :now REMOVE #holder",
            self._MINE,
            values,
            names=tuple(names),
        )
        try:
            self._write({"Update": change}, event)
        except ConditionFailed as failed:
            raise self._lost(lease, failed.item) from None

    def close(
        self,
        key: str,
        state: State,
        reason: str,
        *,
        event: Event | None = None,
        only_if_free: bool = True,
        put_off_too: bool = False,
        category: str | None = None,
    ) -> Row:
        """End work that nobody holds (refused before it began, attempts used up, cancelled by a person).

        Work that waits for a time yet to come is left to it, unless `put_off_too`.
        """
        now = self._clock.now_ms()
        free = "(#until <= :now OR #state = :waiting)" if put_off_too else "#until <= :now"
        condition = f"attribute_exists(#open) AND {free}" if only_if_free else "attribute_exists(#open)"
        values: dict[str, Any] = {":state": state.value, ":now": now, ":reason": sanitise(reason), ":one": 1}
        if only_if_free and put_off_too:
            values[":waiting"] = State.WAITING.value
        setting = "SET #state = :state, #ended = :now, #touched = :now, #reason = :reason, #fence = #fence + :one"
        names = ["state", "ended", "touched", "reason", "fence", "open", "until"]
        if category is not None:
            setting, values[":category"] = f"{setting}, #category = :category", category
            names.append("category")
        change = self._change(key, setting + " REMOVE #open, #until", condition, values, names=names)
        try:
            self._write({"Update": change}, event)
        except ConditionFailed:
            pass  # it was ended or taken meanwhile: what the row says now is the answer
        return self.read(key)

    def replay(self, key: str) -> str:
        """A new key for doing finished work once more: `key:r1`, `key:r2`, …"""
        try:
            row = update(
                self._db,
                **self._change(
                    key,
                    "SET #replays = if_not_exists(#replays, :zero) + :one",
                    "attribute_exists(#key) AND attribute_not_exists(#open)",
                    {":zero": 0, ":one": 1},
                    names=("replays", "key", "open"),
                ),
            )
        except ConditionFailed as failed:
            if failed.item is None:
                raise Missing(f"the book has no {key}") from None
            raise PostroomError(f"{key} is not finished yet; it is {failed.item['state']}") from None
        return f"{key}:r{row['replays']}"

    @staticmethod
    def _mine(lease: Lease) -> dict[str, Any]:
        return {":working": State.WORKING.value, ":me": lease.holder, ":fence": lease.fence}

    @staticmethod
    def _lost(lease: Lease, item: Item | None) -> LeaseLost:
        now = f"fence {item.get('fence')}, {item.get('state')}" if item else "gone"
        return LeaseLost(f"{lease.key}: this holder had fence {lease.fence}; the row is {now}")
