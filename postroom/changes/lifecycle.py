"""From draft to completion: what may become of a change, and how that is written down.

    draft ──▶ submitted ──▶ approved ──▶ completed
                 │  ▲           │
       rejected ◀┘  └── edited ─┘         cancelled: from any but completed

Approval is of a version: an edit makes a new version, and what was approved (or rejected) is submitted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from postroom.changes.model import CONTENT, Change, Modification, Status, now, read_change
from postroom.errors import BadInput

SYSTEM = "postroom"
_FROM = {
    Status.SUBMITTED: {Status.DRAFT},
    Status.APPROVED: {Status.SUBMITTED},
    Status.REJECTED: {Status.SUBMITTED},
    Status.COMPLETED: {Status.APPROVED},
    Status.CANCELLED: {Status.DRAFT, Status.SUBMITTED, Status.APPROVED, Status.REJECTED},
}
_EDITABLE = {Status.DRAFT, Status.SUBMITTED, Status.APPROVED, Status.REJECTED}


def may_become(status: Status, to: Status, change_id: str) -> None:
    """Nothing, when a change may take that step; else BadInput that says which steps there are."""
    if status not in _FROM.get(to, set()):
        after = [each.value for each, before in _FROM.items() if status in before]
        said = f"it may become {' or '.join(after)}" if after else "that is its end"
        raise BadInput(f"change {change_id} is {status.value} and can't become {to.value}; {said}", code="lifecycle")


def moved(change: Change, to: Status, *, by: str, at: datetime | None = None) -> Change:
    """The change with its new status; the same content and version."""
    may_become(change.status, to, change.change_id)
    at = at or now()
    happened = Modification(
        at=at, by=by, type=to.value, key=f"{to.value}:{change.version}", detail={"version": change.version}
    )
    return noted(change.model_copy(update={"status": to, "modified_at": at, "modified_by": by}), happened)


def edited(
    change: Change, content: Mapping[str, Any], *, by: str, replaces: str | None = None, at: datetime | None = None
) -> Change:
    """The next version, submitted; the change itself when nothing differs.

    `replaces` is where the version before it is kept.
    """
    if change.status not in _EDITABLE:
        raise BadInput(f"change {change.change_id} is {change.status.value} and can't be edited", code="lifecycle")
    wanted = {name: content[name] for name in CONTENT if content.get(name) is not None}
    at = at or now()
    kept = {name: value for name, value in change.as_json().items() if name not in CONTENT}
    draft = change.status is Status.DRAFT
    after = read_change({**kept, **wanted})
    if after.content() == change.content():
        return change
    version = change.version if draft else change.version + 1
    detail: dict[str, Any] = {"version": version, "was": change.status.value}
    if replaces:
        detail["replaces"] = replaces
    if gone := [code for code in change.codes if code not in after.codes]:
        detail["dropped"] = gone  # who was told of it hears that it is off
    changes: dict[str, Any] = {"version": version, "modified_at": at, "modified_by": by}
    if draft:
        return after.model_copy(update=changes)
    happened = Modification(at=at, by=by, type="edited", key=f"edited:{version}", detail=detail)
    return noted(after.model_copy(update={**changes, "status": Status.SUBMITTED}), happened)


def noted(change: Change, modification: Modification) -> Change:
    """The change with the modification at its end; the change itself when that key is there."""
    if any(known.key == modification.key for known in change.modifications):
        return change
    return change.model_copy(update={"modifications": (*change.modifications, modification)})
