"""The site's desk: one compare-and-swap answers whether a newcomer starts, is absorbed, or preempts.

    idle ──ask──▶ asked ──begin──▶ editing ──commit──▶ committed ──release──▶ idle
                    ▲                 │ ask: preempt                  │ more was said meanwhile
                    └─────────────────┴───────────────────────────────┘   (a new generation)

The row `site:{project}` carries the generation; only the edit of the present generation may pass
`commit`. Entering an instruction raises `latest_seq`; release demands that all of it was gathered.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from postroom.errors import LeaseLost, Unavailable
from postroom.ledger.clock import Clock
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, update, wire

CAS_TRIES = 40
KEPT_UNNAMED = 20
T = TypeVar("T")


class Answer(StrEnum):
    START = "start"
    ABSORB = "absorb"
    PREEMPT = "preempt"


@dataclass(frozen=True)
class SiteRow:
    """What the desk knows of a site."""

    project: str
    version: int = 0
    phase: str = "idle"
    generation: int = 0
    latest_seq: int = 0
    gathered_seq: int = 0
    newest: str = ""  # order of the newest instruction that the running edit gathered
    oldest_waiting_at: int = 0
    asked_at: int = 0
    preempted_in_row: int = 0
    preempting: Mapping[str, Any] = field(default_factory=dict)
    unnamed: Mapping[str, Any] = field(default_factory=dict)  # generations that made way, not yet shown as such
    stuck: int = 0  # the generation whose agent was stuck once

    @property
    def owes(self) -> bool:
        return self.phase == "idle" and self.latest_seq > self.gathered_seq

    @property
    def edit_key(self) -> str:
        return f"edit:{self.project}:{self.generation}"


@dataclass(frozen=True)
class Asked:
    """The desk's answer, and the edit that will see to the instruction."""

    answer: Answer
    generation: int
    edit_key: str
    preempted: str | None = None  # key of the edit that must let go


class Desk:
    """Decisions on sites."""

    def __init__(
        self,
        dynamodb: Any,
        leases_table: str,
        *,
        clock: Clock,
        max_in_row: int = 3,
        max_wait_seconds: float = 900,
        ask_window_seconds: float = 300,
    ) -> None:
        self._db, self._table, self._clock = dynamodb, leases_table, clock
        self._max_in_row, self._max_wait_ms = max_in_row, int(max_wait_seconds * 1000)
        self._ask_window_ms = int(ask_window_seconds * 1000)

    def read(self, project: str) -> SiteRow:
        answer = self._db.get_item(TableName=self._table, Key={"key": wire(f"site:{project}")}, ConsistentRead=True)
        item = plain_item(answer["Item"]) if answer.get("Item") else {}
        known = {name: item[name] for name in SiteRow.__dataclass_fields__ if name in item}
        return SiteRow(**{**known, "project": project})

    def ask(
        self,
        project: str,
        *,
        order: str,
        by: str = "",
        subject: str = "",
        oldest_waiting_at: int = 0,
        is_next: bool = True,
    ) -> Asked:
        """Ask for an edit of the site on behalf of an instruction.

        `is_next`: the next edit would take it on. If not, nothing is won by stopping the one that runs.
        """

        def decide(row: SiteRow) -> tuple[Asked, dict[str, Any] | None]:
            now = self._clock.now_ms()
            following = f"edit:{project}:{row.generation + 1}"
            fresh = {"phase": "asked", "generation": row.generation + 1, "asked_at": now}
            if row.phase == "idle":
                return Asked(Answer.START, row.generation + 1, following), {**fresh, "preempting": {}}
            if row.phase == "asked" and now - row.asked_at > self._ask_window_ms:
                return Asked(Answer.START, row.generation + 1, following), fresh
            vain = row.phase != "editing" or order <= row.newest or not is_next
            if vain or self._starving(row, oldest_waiting_at, now):
                return Asked(Answer.ABSORB, row.generation, row.edit_key), None
            preempting = {"generation": row.generation, "by": by, "subject": subject[:200]}
            unnamed = [*row.unnamed.items(), (str(row.generation), {"by": by, "subject": subject[:200]})]
            return Asked(Answer.PREEMPT, row.generation + 1, following, row.edit_key), {
                **fresh,
                "preempting": preempting,
                "unnamed": dict(unnamed[-KEPT_UNNAMED:]),
                "preempted_in_row": row.preempted_in_row + 1,
            }

        return self._swap(project, decide)

    def _starving(self, row: SiteRow, oldest_waiting_at: int, now: int) -> bool:
        waits = now - oldest_waiting_at if oldest_waiting_at else 0
        return row.preempted_in_row >= self._max_in_row or waits > self._max_wait_ms

    def begin(self, project: str, generation: int, *, gathered_seq: int, newest: str) -> SiteRow:
        """The edit of this generation has gathered and begins; LeaseLost when it has ended or a newer one was asked."""

        def decide(row: SiteRow) -> tuple[SiteRow, dict[str, Any] | None]:
            self._still(row, generation, "asked", "editing", "committed")
            if row.phase == "committed":  # a retry of an edit that had passed its commit point
                return row, None
            change = {"phase": "editing", "gathered_seq": gathered_seq, "newest": newest}
            return row, change

        self._swap(project, decide)
        return self.read(project)

    def commit(self, project: str, generation: int) -> None:
        """Pass the commit point: from here on newcomers wait. LeaseLost when it has ended or a newer one was asked."""

        def decide(row: SiteRow) -> tuple[None, dict[str, Any] | None]:
            self._still(row, generation, "editing", "committed")
            return None, None if row.phase == "committed" else {"phase": "committed"}

        self._swap(project, decide)

    def release(self, project: str, generation: int, *, finished: bool = True) -> Asked | None:
        """Leave the desk; the next edit to be asked for when more was said than was gathered, else None."""

        def decide(row: SiteRow) -> tuple[Asked | None, dict[str, Any] | None]:
            if row.generation != generation or row.phase == "idle":
                return None, None  # a newer edit has the desk, or we left already
            kept = 0 if finished else row.preempted_in_row
            if row.latest_seq > row.gathered_seq:
                change = {"phase": "asked", "generation": generation + 1, "asked_at": self._clock.now_ms()}
                asked = Asked(Answer.START, generation + 1, f"edit:{project}:{generation + 1}")
                return asked, {**change, "preempted_in_row": kept, "preempting": {}}
            return None, {"phase": "idle", "preempted_in_row": kept, "preempting": {}}

        return self._swap(project, decide)

    def step_back(self, project: str, generation: int) -> bool:
        """Leave the desk without asking for the next edit (the site is paused); it goes on owing one.

        False past the commit point: what is done already is brought to its end.
        """

        def decide(row: SiteRow) -> tuple[bool, dict[str, Any] | None]:
            if row.generation != generation or row.phase == "idle":
                return True, None
            if row.phase == "committed":
                return False, None
            # an attempt that died may have gathered; nothing of it counts
            return True, {"phase": "idle", "preempting": {}, "gathered_seq": 0}

        return self._swap(project, decide)

    def named(self, project: str, generation: int) -> None:
        """An edit that made way is shown as such now."""

        def decide(row: SiteRow) -> tuple[None, dict[str, Any] | None]:
            if str(generation) not in row.unnamed:
                return None, None
            return None, {"unnamed": {n: mark for n, mark in row.unnamed.items() if n != str(generation)}}

        self._swap(project, decide)

    def was_stuck(self, project: str, generation: int) -> bool:
        """Whether the agent of this edit was stuck before; from now on it was."""

        def decide(row: SiteRow) -> tuple[bool, dict[str, Any] | None]:
            return (True, None) if row.stuck == generation else (False, {"stuck": generation})

        return self._swap(project, decide)

    def reopen(self, project: str) -> None:
        """Make the site owe an edit again (an instruction was put back by a person)."""

        def decide(row: SiteRow) -> tuple[None, dict[str, Any]]:
            return None, {"latest_seq": row.latest_seq + 1}

        self._swap(project, decide)

    @staticmethod
    def _still(row: SiteRow, generation: int, *phases: str) -> None:
        if row.generation != generation:
            raise LeaseLost(f"edit:{row.project}:{generation} was overtaken by generation {row.generation}")
        if row.phase not in phases:  # another attempt of this edit has gone on without us
            raise LeaseLost(f"edit:{row.project}:{generation} was overtaken: the site is {row.phase} already")

    def _swap(self, project: str, decide: Callable[[SiteRow], tuple[T, dict[str, Any] | None]]) -> T:
        """Read, decide, write if nothing moved meanwhile; else again."""
        for attempt in range(CAS_TRIES):
            row = self.read(project)
            answer, change = decide(row)
            if change is None:
                return answer
            try:
                update(self._db, **self._compare_and_set(row, change))
                return answer
            except ConditionFailed:
                time.sleep(random.uniform(0, min(0.2, 0.005 * 2**attempt)))  # noqa: S311 - jitter
        raise Unavailable(f"site:{project} is too busy: {CAS_TRIES} compare-and-swaps failed")

    def _compare_and_set(self, row: SiteRow, change: Mapping[str, Any]) -> Item:
        names = {f"#{name}": name for name in (*change, "version", "state")}
        values = {f":{name}": wire(value) for name, value in change.items()}
        setting = ", ".join(f"#{name} = :{name}" for name in change)
        return {
            "TableName": self._table,
            "Key": {"key": wire(f"site:{row.project}")},
            "UpdateExpression": f"SET {setting}, #version = :next, #state = :waiting",
            "ConditionExpression": "attribute_not_exists(#version) OR #version = :seen"
            if row.version == 0
            else "#version = :seen",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {
                **values,
                ":next": wire(row.version + 1),
                ":seen": wire(row.version),
                ":waiting": wire("waiting"),
            },
        }
