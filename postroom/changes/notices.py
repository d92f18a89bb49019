"""Whom a change is told to, by its status: the topic, and the kind of letter.

submitted              aws-approval   approval-request, or `updated` when this customer knows an older version
approved, completed    aws-announce
cancelled              aws-announce   only to customers who had been told of it; the same when an edit takes one off
draft, rejected        nobody
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from postroom.changes.model import Change, Status

APPROVAL, ANNOUNCE = "aws-approval", "aws-announce"
PROCESSED = "processed"


@dataclass(frozen=True)
class Notice:
    """What a customer's people are told."""

    topic: str
    kind: str


def notice_key(change: Change, code: str) -> str:
    """Submitted and approved of one version are two notices; the same event twice is one."""
    return _key(change.change_id, change.version, change.status, code)


def earlier_keys(change: Change, code: str) -> Iterator[str]:
    """Keys of the notices that may have told this customer of the change before."""
    for version in range(1, change.version + 1):
        for status in (Status.SUBMITTED, Status.APPROVED):
            if version == change.version and (
                change.status is Status.SUBMITTED or (change.status, status) == (Status.APPROVED, Status.APPROVED)
            ):
                break
            yield _key(change.change_id, version, status, code)


def decide(change: Change, *, told: bool, tell_cancelled: bool = True) -> Notice | None:
    """The notice for a customer who has (or has not) been told of the change before; None: nobody is told."""
    match change.status:
        case Status.SUBMITTED:
            return Notice(APPROVAL, "updated" if told and change.version > 1 else "approval-request")
        case Status.APPROVED | Status.COMPLETED:
            return Notice(ANNOUNCE, change.status.value)
        case Status.CANCELLED if told and tell_cancelled:
            return Notice(ANNOUNCE, "cancelled")
    return None


def was_told(change: Change, code: str) -> bool:
    """Whether the archive says that people of this customer were told of the change."""
    return any(
        each.type == PROCESSED and each.customer == code and has_told(each.detail or {})
        for each in change.modifications
    )


def has_told(outcome: object) -> bool:
    """Whether somebody was, or may have been, told: also through another customer of the same account."""
    return isinstance(outcome, dict) and any(int(outcome.get(name) or 0) for name in ("sent", "unknown", "shared"))


def taken_off(change: Change) -> dict[str, int]:
    """Customers that edits have taken off the change, and the version that did it to each last."""
    found: dict[str, int] = {}
    for each in change.modifications:
        detail = each.detail or {}
        if each.type == "edited":
            found |= {str(code): int(detail["version"]) for code in detail.get("dropped", ())}
    return {code: version for code, version in found.items() if code not in change.codes}


def open_notices(change: Change) -> dict[str, str]:
    """Customers who may have to be told and for whom the archive has no entry, with the key of their notice."""
    keys = {code: notice_key(change, code) for code in change.codes}
    keys |= {
        code: _key(change.change_id, version, Status.CANCELLED, code) for code, version in taken_off(change).items()
    }
    recorded = {each.key for each in change.modifications}
    return {code: key for code, key in keys.items() if key not in recorded}


def _key(change_id: str, version: int, status: Status, code: str) -> str:
    return f"change:{change_id}:{version}:{status.value}:{code}"
