"""A row of the book: one piece of work, from the moment it came in to its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    WAITING = "waiting"  # entered, nobody works on it
    WORKING = "working"  # somebody holds the lease
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self not in (State.WAITING, State.WORKING)


@dataclass(frozen=True)
class Work:
    """What has to be run for a key: enough for the sweeper to ask for the run again."""

    deployment: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    def as_item(self) -> dict[str, Any]:
        # As text: a table's maps end at 32 levels and its numbers at 38 digits, JSON's do not.
        parameters = json.dumps(dict(self.parameters), ensure_ascii=False)
        return {"deployment": self.deployment, "parameters": parameters, "tags": list(self.tags)}

    @classmethod
    def of(cls, item: Mapping[str, Any] | None) -> Work | None:
        if not item:
            return None
        return cls(item["deployment"], json.loads(item.get("parameters") or "{}"), tuple(item.get("tags", ())))


@dataclass(frozen=True)
class Row:
    """What the book says about a key."""

    key: str
    job: str
    state: State
    fence: int = 0
    attempts: int = 0
    max_attempts: int = 3
    holder: str | None = None
    effective_until: int = 0  # working: end of the lease; waiting: not before; ms since the epoch
    entered_at: int = 0
    touched_at: int = 0  # last time that a person or process moved it
    ended_at: int | None = None
    run_id: str | None = None
    asked: int = 0  # how often a run was asked for
    replays: int = 0
    work: Work | None = None
    reason: str | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)
    category: str = "died"  # what kind of error the last attempt ended with; `died` when it did not get to say

    @property
    def terminal(self) -> bool:
        return self.state.terminal

    @property
    def exhausted(self) -> bool:
        return self.attempts >= self.max_attempts

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Row:
        outcome = item.get("outcome") or {}
        if "category" in item:  # kept beside what a body has written down as its outcome so far
            outcome = {"category": item["category"], **outcome}
        return cls(
            key=item["key"],
            job=item.get("job", ""),
            state=State(item["state"]),
            fence=item.get("fence", 0),
            attempts=item.get("attempts", 0),
            max_attempts=item.get("max_attempts", 3),
            holder=item.get("holder"),
            effective_until=item.get("effective_until", 0),
            entered_at=item.get("entered_at", 0),
            touched_at=item.get("touched_at", 0),
            ended_at=item.get("ended_at"),
            run_id=item.get("run_id"),
            asked=item.get("asked", 0),
            replays=item.get("replays", 0),
            work=Work.of(item.get("work")),
            reason=item.get("reason"),
            outcome=outcome,
            category=outcome.get("category") or "died",
        )
