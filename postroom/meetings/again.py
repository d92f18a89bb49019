"""Another try for invitations that have failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postroom.changes.model import Change
from postroom.delivery.asking import asked
from postroom.delivery.customer import Customer
from postroom.delivery.notice import Notice
from postroom.delivery.report import Report
from postroom.delivery.send import Delivering
from postroom.ledger import Book
from postroom.meetings.invitations import Invitations, notice_of
from postroom.meetings.meeting import is_on, meeting_of
from postroom.meetings.standing import ICS, standing_of


def invitation(change: Change, customer: Customer, entry: Mapping[str, Any]) -> Notice | None:
    """The invitation of that entry of the book, if it is the one that holds now."""
    standing = standing_of(change)
    if not standing.live or standing.through != ICS or not is_on(change):
        return None
    version, sequence = (int(standing.detail[name]) for name in ("version", "sequence"))
    notice = notice_of(change, customer, version, sequence, "REQUEST")
    return notice if (notice.version, notice.status) == (entry["version"], entry["status"]) else None


async def invite_again(book: Book, change: Change, notice: Notice) -> Report:
    """Tries once more those whose invitation has failed, by the same rules as the first time."""
    sequence, meeting = int(standing_of(change).detail["sequence"]), meeting_of(change)

    def written() -> Invitations:
        return Invitations(notice, change, meeting, method="REQUEST", sequence=sequence)

    return await Delivering(book, notice, await asked(written), lambda: None).tell_failed()
