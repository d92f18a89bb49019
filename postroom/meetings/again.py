"""Another try for invitations that have failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from postroom.changes.model import Change
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
    notice = notice_of(change, customer, int(standing.detail["version"]), standing.sequence, "REQUEST")
    return notice if (notice.version, notice.status) == (entry["version"], entry["status"]) else None


async def invite_again(book: Book, change: Change, notice: Notice) -> Report:
    """Tries once more those whose invitation has failed, by the same rules as the first time."""
    sequence, meeting = standing_of(change).sequence, meeting_of(change)

    def written() -> Invitations:
        return Invitations(notice, meeting, method="REQUEST", sequence=sequence, stamp=change.modified_at)

    return await Delivering(book, notice, await asyncio.to_thread(written), lambda: None).tell_failed()
