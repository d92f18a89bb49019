"""Who holds an invitation by mail, as the book knows it: whatever customers the change names by now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from postroom.changes.model import Change
from postroom.delivery.report import notices
from postroom.ledger import Book
from postroom.meetings.attendees import Person
from postroom.meetings.standing import CANCELLED

_STATUS = re.compile(r"meeting-(off-)?(\d+)")


@dataclass(frozen=True)
class Invited:
    """People by lower-case address, in the name of the customer that invited them; and those told that it is off."""

    people: dict[str, Person]
    off: frozenset[str]


def invited(book: Book, change: Change) -> Invited:
    """Who was, or may have been, invited since the meeting was last called off, and has not heard that it is off."""
    on: dict[str, tuple[int, Person]] = {}
    off: dict[str, int] = {}
    batches = {entry["deliveries"]: (entry["customer"], *which) for entry, which in _entries(book, change)}
    for batch, (code, cancels, sequence) in batches.items():
        for row in book.deliveries.of_batch(batch):
            if cancels and row.settled:
                off[row.recipient] = max(sequence, off.get(row.recipient, -1))
            elif not cancels and row.state != "failed" and sequence >= on.get(row.recipient, (-1,))[0]:
                on[row.recipient] = sequence, Person(row.recipient, str(row.detail.get("customer") or code))
    people = {key: person for key, (sequence, person) in on.items() if off.get(key, -1) < sequence}
    return Invited(people, frozenset(off.keys() - people.keys()))


def inviting(book: Book, change: Change) -> list[str]:
    """The codes of all customers in whose name people may hold invitations."""
    return sorted({str(entry["customer"]) for entry, (cancels, _) in _entries(book, change) if not cancels})


def _entries(book: Book, change: Change) -> Iterator[tuple[dict[str, Any], tuple[bool, int]]]:
    """The notices of invitations since the meeting was last called off: whether they cancel, and their sequence."""
    ended = [int((each.detail or {})["sequence"]) for each in change.modifications if each.type == CANCELLED]
    since = ended[-1] if ended else -1
    for entry in notices(book, change.change_id):
        found = _STATUS.fullmatch(entry["status"]) if entry["kind"] == "meeting" else None
        if found and int(found[2]) > since:
            yield entry, (bool(found[1]), int(found[2]))
