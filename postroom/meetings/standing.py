"""How a change's meeting stands, as the archive tells it.

    asked ──▶ scheduled ──▶ updated ──▶ … ──▶ (ending) ──▶ cancelled      a meeting wanted after that is the next number

`asked` is written before a calendar hears of a meeting: whoever carries on after a crash knows to look there first.
By mail, `ending` is written before people hear that it is off, and `leaving` before those hear it whose customer was
taken off the change: from then on the sequence is higher, so that whoever is invited again hears of it.
Each entry's key is its number and its place, so it is entered once however often it is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from postroom.changes.lifecycle import SYSTEM
from postroom.changes.model import Change, Modification, now

ASKED, SCHEDULED, UPDATED, CANCELLED = "meeting-asked", "meeting-scheduled", "meeting-updated", "meeting-cancelled"
LEAVING, ENDING = "meeting-leaving", "meeting-ending"
GRAPH, ICS = "graph", "ics"


@dataclass(frozen=True)
class Standing:
    """The newest meeting of a change. `sequence` is -1 before the first entry."""

    change_id: str
    number: int = 1
    sequence: int = -1
    live: bool = False
    through: str | None = None  # graph or ics
    event_id: str | None = None
    content: str = ""
    people: str = ""
    asked: frozenset[str] = frozenset()
    detail: Mapping[str, Any] = field(default_factory=dict)  # of the last invitation
    leaving: int | None = None  # the version that took customers off, when some may not have heard yet
    ending: Mapping[str, Any] | None = None  # what is being called off

    @property
    def may_exist(self) -> bool:
        """Whether a calendar has it, or may have it."""
        return self.live or bool(self.asked) or self.ending is not None

    @property
    def transaction(self) -> UUID:
        """The same for every try to make this meeting."""
        return transaction_id(self.change_id, "meeting" if self.number == 1 else f"meeting:{self.number}")

    def entry(self, kind: str, version: int, **detail: Any) -> Modification:
        """The archive's entry of what was done."""
        sequence = self.sequence + 1
        said = {"version": version, "number": self.number, "sequence": sequence, **detail}
        key = f"meeting:{self.number}:{sequence}"
        return _entry(kind, key, {name: value for name, value in said.items() if value not in (None, [], "")})

    def asking(self, version: int, through: str, content: str) -> Modification:
        """The archive's entry that a calendar is about to hear of it."""
        detail = {"version": version, "number": self.number, "through": through, "content": content}
        return _entry(ASKED, f"meeting:{self.number}:asked:{content}", detail)


def transaction_id(change_id: str, purpose: str) -> UUID:
    """What Graph knows repeated requests by."""
    return uuid5(uuid5(NAMESPACE_URL, f"postroom:change:{change_id}"), purpose)


def standing_of(change: Change) -> Standing:
    """Read from the change's modifications, oldest first."""
    found = Standing(change.change_id)
    for each in change.modifications:
        detail = each.detail or {}
        if each.type == ASKED:
            if int(detail["number"]) != found.number:
                found = Standing(change.change_id, int(detail["number"]), found.sequence)
            found = _with(found, through=str(detail["through"]), asked=found.asked | {str(detail["content"])})
        elif each.type in (SCHEDULED, UPDATED):
            found = Standing(
                change.change_id,
                int(detail["number"]),
                int(detail["sequence"]),
                True,
                str(detail["through"]),
                detail.get("eventId"),
                str(detail.get("content", "")),
                str(detail.get("people", "")),
                detail=detail,
            )
        elif each.type == LEAVING:
            found = _with(found, sequence=int(detail["sequence"]), leaving=int(detail["version"]))
        elif each.type == ENDING:
            number, sequence = int(detail["number"]), int(detail["sequence"])
            found = Standing(change.change_id, number, sequence, through=str(detail["through"]), ending=detail)
        elif each.type == CANCELLED:
            found = Standing(change.change_id, int(detail["number"]) + 1, int(detail["sequence"]))
    return found


def _with(found: Standing, **changes: Any) -> Standing:
    return Standing(**{**{name: getattr(found, name) for name in Standing.__dataclass_fields__}, **changes})


def _entry(kind: str, key: str, detail: dict[str, Any]) -> Modification:
    return Modification(at=now(), by=SYSTEM, type=kind, key=key, detail=detail)
