"""Where changes are kept: the archive is the truth, everything else points at it.

    drafts/{id}.json             a working copy; nobody hears of it
    archive/{id}.json            the change; every write is conditional
    customers/{code}/{id}.json   a trigger: look at the archive on behalf of this customer

A change is archived first, then one trigger per customer is written, then its draft is removed. If the archive
can't be written there is no trigger; if a trigger is missing, asking for the same step again writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic.alias_generators import to_camel

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.changes import lifecycle
from postroom.changes.differences import Difference, differences
from postroom.changes.model import (
    CHANGE_ID,
    CONTENT,
    INCOMPLETE,
    MOST_BYTES,
    Change,
    Modification,
    Status,
    bad_change,
    examined,
    now,
    read_change,
)
from postroom.changes.notices import open_notices, taken_off
from postroom.changes.shelf import Kept, Rehearsal, Shelf
from postroom.errors import BadInput, Conflict, Missing, PostroomError, Unavailable, Unparsable, classify
from postroom.settings import settings

# How a step is asked for once more: by the id, for a file without one would make another change.
_VERBS = {
    Status.DRAFT: "draft",
    Status.SUBMITTED: "submit",
    Status.APPROVED: "approve",
    Status.REJECTED: "reject",
    Status.COMPLETED: "complete",
    Status.CANCELLED: "cancel",
}


def archive_key(change_id: str) -> str:
    return f"archive/{change_id}.json"


def draft_key(change_id: str) -> str:
    return f"drafts/{change_id}.json"


def trigger_key(code: str, change_id: str) -> str:
    return f"customers/{code}/{change_id}.json"


@dataclass(frozen=True)
class Version:
    """One entry of a change's version list; `kept` names its last state among the archive's versions."""

    version: int
    at: str
    by: str
    kept: str | None


class ChangeStore:
    """Changes of one post room. `known` are the codes of its customers; None accepts any."""

    def __init__(self, shelf: Shelf, *, known: Collection[str] | None = None) -> None:
        self.shelf, self.known = shelf, known

    # looking

    def read(self, change_id: str) -> Change:
        """The change as the archive has it; Missing when it was never submitted."""
        found = self.shelf.find(archive_key(_checked(change_id)))
        if found is None:
            raise Missing(f"there is no change {change_id} in the archive")
        return read_change(found.document)

    def read_draft(self, change_id: str) -> dict[str, Any] | None:
        """The working copy, as far as it is written."""
        found = self.shelf.find(draft_key(_checked(change_id)))
        return found.document if found else None

    def versions(self, change_id: str) -> list[Version]:
        """Every version of a change, oldest first; the last one is the present."""
        change = self.read(change_id)
        edits = [each for each in change.modifications if each.type == "edited"]
        kept = [str((each.detail or {}).get("replaces") or "") or None for each in edits]
        listed = [Version(1, _at(change.created_at), change.created_by, kept[0] if kept else None)]
        for number, each in enumerate(edits):
            at = kept[number + 1] if number + 1 < len(edits) else None
            listed.append(Version(int((each.detail or {})["version"]), _at(each.at), each.by, at))
        return listed

    def read_version(self, change_id: str, version: int) -> Change:
        """A change as it was when the next version replaced it."""
        for each in self.versions(change_id):
            if each.version == version:
                found = self.shelf.find(archive_key(change_id), each.kept)
                if found is None:
                    raise Missing(f"version {version} of change {change_id} is not kept any more")
                return read_change(found.document)
        raise Missing(f"change {change_id} has no version {version}")

    def ever_named(self, change_id: str, code: str) -> bool:
        """Whether an older version of the change concerned this customer."""
        return any(code in self.read_version(change_id, each.version).codes for each in self.versions(change_id)[:-1])

    def parting(self, change: Change, code: str) -> Change | None:
        """The change as a customer has it whom an edit took off: over, in the words that were meant for them."""
        version = taken_off(change).get(code)
        if version is None:
            return None
        try:
            known = self.read_version(change.change_id, version - 1)
        except Missing:  # not kept any more
            known = change
        told = {"version": version, "status": Status.CANCELLED, "modifications": change.modifications}
        return known.model_copy(update=told)

    def triggered(self, change: Change, code: str) -> bool:
        """Whether the customer's trigger is of the change as it stands; one that was left over is not."""
        try:
            found = self.shelf.find(trigger_key(code, change.change_id))
        except Unparsable:
            return False
        says = (found.document.get("version"), found.document.get("status")) if found else None
        return says == (change.version, change.status.value)

    def compare(self, change_id: str, before: int, after: int) -> list[Difference]:
        """What people changed between two versions, field by field."""
        old, new = self.read_version(change_id, before), self.read_version(change_id, after)
        return list(differences(old.content(), new.content()))

    # writing

    def draft(self, document: Mapping[str, Any], *, by: str) -> dict[str, Any]:
        """The working copy as stored: it may be incomplete, but what it says must be right."""
        change_id = _checked(str(document.get("changeId") or uuid4()))
        _not_too_large(document)
        if self.shelf.tag(archive_key(change_id)) is not None:
            raise BadInput(f"change {change_id} is submitted already; update it instead", code="lifecycle")

        def written(found: Kept | None) -> dict[str, Any]:
            before = found.document if found else {}
            if before.get("status") == Status.CANCELLED:
                raise BadInput(f"the draft {change_id} is cancelled", code="lifecycle")
            draft = self._dressed({**document, "changeId": change_id}, before, by)
            _, problems = examined(draft, known=self.known)
            if wrong := [each for each in problems if each["code"] not in INCOMPLETE]:
                raise bad_change(wrong)
            return draft

        kept = self.shelf.alter(draft_key(change_id), written)
        assert kept is not None
        return kept.document

    def submit(self, document: Mapping[str, Any], *, by: str) -> Change:
        """The change, archived as submitted, with a trigger for each of its customers."""
        change_id = _checked(str(document.get("changeId") or uuid4()))
        _not_too_large(document)
        draft = self.shelf.find(draft_key(change_id))
        if draft is not None and draft.document.get("status") == Status.CANCELLED:
            raise BadInput(f"change {change_id} is cancelled", code="lifecycle")
        dressed = self._dressed({**document, "changeId": change_id}, draft.document if draft else {}, by)
        wanted = lifecycle.moved(read_change(dressed, known=self.known), Status.SUBMITTED, by=by)

        def written(found: Kept | None) -> dict[str, Any] | None:
            if found is None:
                return wanted.as_json()
            there = read_change(found.document)
            if there.version != 1 or there.status is not Status.SUBMITTED or there.content() != wanted.content():
                raise BadInput(
                    f"there is a change {change_id} already: version {there.version}, {there.status.value}; "
                    "update it instead",
                    code="exists",
                )
            return None  # the same words once more: only missing triggers are made up for

        change = self._alter(change_id, written)
        self._trigger(change)
        if draft is not None:
            self.shelf.remove(draft_key(change_id), only=draft.etag)
        return change

    def submit_again(self, change_id: str) -> Change:
        """A change that is submitted already, with the triggers that it lacks."""
        change = self.read(change_id)
        if change.status is not Status.SUBMITTED:
            lifecycle.may_become(change.status, Status.SUBMITTED, change_id)
        self._trigger(change)
        return change

    def update(self, document: Mapping[str, Any], *, by: str) -> Change | dict[str, Any]:
        """The next version, with new triggers; of a draft, the draft. A version in the document must be the present."""
        change_id = _checked(str(document.get("changeId") or ""))
        _not_too_large({name: document.get(name) for name in CONTENT})  # one that was shown has its history with it
        if strange := sorted(set(document) - {to_camel(name) for name in Change.model_fields}):
            raise BadInput(f"a change has no {', '.join(strange)}"[:500], code="extra_forbidden")
        if self.shelf.tag(archive_key(change_id)) is None:
            if self.shelf.tag(draft_key(change_id)) is None:
                raise Missing(f"there is no change {change_id}")
            return self.draft(document, by=by)
        base = document.get("version")

        def written(found: Kept | None) -> dict[str, Any] | None:
            there = _there(found, change_id)
            if base is not None and base != there.version:
                mine = base == there.version - 1 and by == there.modified_by
                if mine and lifecycle.edited(there, document, by=by) is there:
                    return None  # this very edit: it was written, and the answer was lost
                raise Conflict(
                    f"change {change_id} is at version {there.version} by now; this edit is of version {base}", files=()
                )
            after = lifecycle.edited(there, document, by=by, replaces=found.version_id if found else None)
            self._known(after)
            return None if after is there else after.as_json()

        change = self._alter(change_id, written)
        self._trigger(change)
        return change

    def move(self, change_id: str, to: Status, *, by: str, version: int | None = None) -> Change | dict[str, Any]:
        """The change with its new status, and triggers; a step that was taken already only makes up for triggers."""
        if self.shelf.tag(archive_key(_checked(change_id))) is None and self.read_draft(change_id) is not None:
            return self._move_draft(change_id, to, by)
        seen = version

        def written(found: Kept | None) -> dict[str, Any] | None:
            nonlocal seen
            there = _there(found, change_id)
            seen = seen or there.version
            if there.version != seen:
                raise Conflict(f"change {change_id} is at version {there.version} by now, not {seen}", files=())
            return None if there.status is to else lifecycle.moved(there, to, by=by).as_json()

        change = self._alter(change_id, written)
        self._trigger(change)
        return change

    def record(self, change_id: str, modification: Modification) -> Change:
        """The change with that modification, once, however many record at the same time."""

        def written(found: Kept | None) -> dict[str, Any] | None:
            there = _there(found, change_id)
            after = lifecycle.noted(there, modification)
            return None if after is there else after.as_json()

        return self._alter(change_id, written)

    # inside

    def _alter(self, change_id: str, written: Callable[[Kept | None], dict[str, Any] | None]) -> Change:
        kept = self.shelf.alter(archive_key(change_id), written)
        return _there(kept, change_id)

    def _trigger(self, change: Change) -> None:
        """A trigger for each customer for whom the archive has no entry of this status and version."""
        self.trigger(change, open_notices(change))

    def trigger(self, change: Change, codes: Iterable[str]) -> None:
        """Triggers for these customers; Unavailable, after all were tried, names those it could not write."""
        failed: dict[str, PostroomError] = {}
        for code in codes:
            document = {
                "changeId": change.change_id,
                "version": change.version,
                "status": change.status.value,
                "customer": code,
                "at": _at(now()),
            }
            try:
                self.shelf.write(trigger_key(code, change.change_id), document, over=None, always=True)
            except Exception as error:
                failed[code] = classify(error)
        if failed:
            raise Unavailable(
                f"change {change.change_id} is archived, but {', '.join(failed)} could not be told: "
                f"{next(iter(failed.values()))}. The sensor makes up for it in a minute or two; "
                f"at once: postroom change {_VERBS[change.status]} {change.change_id}"
            )

    def _move_draft(self, change_id: str, to: Status, by: str) -> dict[str, Any]:
        if to is not Status.CANCELLED:
            lifecycle.may_become(Status.DRAFT, to, change_id)

        def written(found: Kept | None) -> dict[str, Any] | None:
            if found is None:
                raise Missing(f"there is no draft {change_id}")
            if found.document.get("status") == to:
                return None
            return {**found.document, "status": to.value, "modifiedAt": _at(now()), "modifiedBy": by}

        kept = self.shelf.alter(draft_key(change_id), written)
        assert kept is not None
        return kept.document

    def _dressed(self, document: Mapping[str, Any], before: Mapping[str, Any], by: str) -> dict[str, Any]:
        """The document with what a writer may leave out; status and version are never the writer's."""
        return {
            **document,
            "version": 1,
            "status": Status.DRAFT.value,
            "createdAt": before.get("createdAt") or _at(now()),
            "createdBy": before.get("createdBy") or by,
            "modifiedAt": _at(now()),
            "modifiedBy": by,
            "modifications": [],
        }

    def _known(self, change: Change) -> None:
        _, problems = examined(change.as_json(), known=self.known)
        if problems:
            raise bad_change(problems)


def open_store(*, known: Collection[str] | None = None, rehearse: bool = False) -> ChangeStore:
    """The changes of this process's post room; `rehearse` to write nothing."""
    kind = Rehearsal if rehearse else Shelf
    return ChangeStore(kind(client("s3"), Names(settings().prefix).changes_bucket), known=known)


def _there(found: Kept | None, change_id: str) -> Change:
    if found is None:
        raise Missing(f"there is no change {change_id} in the archive")
    return read_change(found.document)


def _checked(change_id: str) -> str:
    if not CHANGE_ID.fullmatch(change_id):
        raise BadInput(f"changeId {change_id[:80]!r}: 1-200 characters of A-Z, a-z, 0-9, '.', '_' and '-' are wanted")
    return change_id


def _not_too_large(document: Mapping[str, Any]) -> None:
    if len(json.dumps(document)) > MOST_BYTES:
        raise BadInput(f"the change is larger than {MOST_BYTES} bytes", code="too-large")


def _at(moment: Any) -> str:
    return str(moment.isoformat().replace("+00:00", "Z"))
