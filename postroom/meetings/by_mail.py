"""Carrying out a step by mail.

An invitation is recorded before it is sent: its sequence is the batch in the book, so whoever carries on after a crash
sends what is left of it and nothing twice. A cancellation is recorded after it is sent, so that it is never forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from postroom.changes.model import Change, Modification
from postroom.delivery.customer import Customer
from postroom.errors import PostroomError, classify
from postroom.ledger import Book
from postroom.meetings.attendees import Attendees, Person
from postroom.meetings.ics import Method
from postroom.meetings.invitations import Invitations, invite, invited, notice_of
from postroom.meetings.keeping import Check, Record, times
from postroom.meetings.meeting import Meeting
from postroom.meetings.plan import Action, Step
from postroom.meetings.standing import CANCELLED, ICS, SCHEDULED, UPDATED, Standing, standing_of

COUNTS = ("sent", "failed", "unknown", "pending")


async def keep_by_mail(
    step: Step,
    change: Change,
    attendees: Attendees,
    customers: Sequence[Customer],
    book: Book,
    record: Record,
    check: Check,
) -> tuple[dict[str, Any], dict[str, PostroomError]]:
    """What was done, with counts; and the customers for whom it could not be done."""
    outcome: dict[str, Any] = {"action": step.action.value, "through": ICS, "reason": step.reason}
    known = await asyncio.to_thread(invited, book, change, customers)
    if step.action is Action.CANCEL:
        sequence = step.standing.sequence + 1
        people = {key: Person(address, code) for key, (code, address) in known.items()}
        told = remembered(step.standing, change)
        counts, failed = await _tell(book, change, told, people, customers, change.version, sequence, "CANCEL", check)
        if not failed:
            await record(step.standing.entry(CANCELLED, change.version, through=ICS, reason=step.reason))
        return outcome | counts, failed
    if step.meeting is None or (step.action is Action.NOTHING and not step.standing.live):
        return outcome, {}
    if step.action is Action.NOTHING:
        standing = step.standing
    else:
        kind = SCHEDULED if step.action is Action.CREATE else UPDATED
        standing = standing_of(await record(_entry(kind, step.standing, change, step.meeting)))
    # Who was invited in the name of one customer stays there: another UID would be a second meeting.
    people = {
        key: Person(person.address, known[key][0] if key in known else person.customer)
        for key, person in attendees.people.items()
    }
    version = int(standing.detail["version"])
    counts, failed = await _tell(
        book, change, step.meeting, people, customers, version, standing.sequence, "REQUEST", check
    )
    return outcome | counts, failed


async def _tell(
    book: Book,
    change: Change,
    meeting: Meeting,
    people: dict[str, Person],
    customers: Sequence[Customer],
    version: int,
    sequence: int,
    method: Method,
    check: Check,
) -> tuple[dict[str, int], dict[str, PostroomError]]:
    counts, failed = dict.fromkeys(COUNTS, 0), dict[str, PostroomError]()

    async def one(customer: Customer) -> None:
        addresses = [person.address for person in people.values() if person.customer == customer.code]
        if not addresses:
            return
        notice = notice_of(change, customer, version, sequence, method)
        try:
            written = partial(Invitations, notice, meeting, method=method, sequence=sequence, stamp=change.modified_at)
            report = await invite(book, notice, addresses, written, check)
        except Exception as error:  # one customer's trouble is no other's
            failed[customer.code] = classify(error)
            return
        for name in COUNTS:
            counts[name] += getattr(report, name)

    await asyncio.gather(*map(one, customers))
    return counts, failed


def _entry(kind: str, standing: Standing, change: Change, meeting: Meeting) -> Modification:
    """With what a later cancellation has to say again: it names the meeting as it was told."""
    return standing.entry(
        kind,
        change.version,
        through=ICS,
        title=meeting.title,
        location=meeting.location,
        zone=str(meeting.start.tzinfo),
        **times(meeting),
        content=meeting.content,
    )


def remembered(standing: Standing, change: Change) -> Meeting:
    """The meeting as it was last told: the change may have another, or none, by now."""
    told = standing.detail
    start, end = (
        datetime.fromisoformat(str(told[name])).astimezone(ZoneInfo(str(told["zone"])))
        for name in ("startTime", "endTime")
    )
    words = (("", f"{change.change_metadata.title}\nChange {change.change_id}"),)
    return Meeting(change.change_id, str(told["title"]), start, end, str(told.get("location", "")), words)
