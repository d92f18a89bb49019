"""Carrying out a step by mail.

What is about to be sent is recorded first: its sequence is the batch in the book, so whoever carries on after a crash
sends what is left of it and nothing twice, and whoever was told that it is off is invited again by a higher one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from postroom.changes.model import Change, Modification
from postroom.delivery.customer import Customer
from postroom.errors import Missing, PostroomError, classify
from postroom.ledger import Book
from postroom.meetings.attendees import Attendees, Person
from postroom.meetings.ics import Method
from postroom.meetings.invitations import Invitations, invite, notice_of
from postroom.meetings.invited import Invited, invited
from postroom.meetings.keeping import Check, Record, times
from postroom.meetings.meeting import Meeting
from postroom.meetings.plan import Action, Step
from postroom.meetings.standing import CANCELLED, ENDING, ICS, LEAVING, SCHEDULED, UPDATED, Standing, standing_of

COUNTS = ("sent", "failed", "unknown", "pending")
AT_ONCE = 8
TOLD = ("title", "location", "zone", "startTime", "endTime")  # what is said again when it is called off


async def keep_by_mail(
    step: Step,
    change: Change,
    attendees: Attendees,
    customers: Sequence[Customer],
    book: Book,
    record: Record,
    check: Check,
) -> tuple[dict[str, Any], dict[str, PostroomError]]:
    """What was done, with counts; and the customers for whom it could not be done.

    `customers` are those of the change, and those whose people were invited before.
    """
    outcome: dict[str, Any] = {"action": step.action.value, "through": ICS, "reason": step.reason}
    before = await asyncio.to_thread(invited, book, change)
    told = _Told(book, change, customers, check)
    if step.action is Action.CANCEL:
        return await _call_off(step, change, before, told, record, outcome)
    if step.meeting is None or (step.action is Action.NOTHING and not step.standing.live):
        return outcome, {}
    # Who was invited in the name of one customer stays there: another UID would be a second meeting.
    people = {key: before.people.get(key) or person for key, person in attendees.people.items()}
    standing = step.standing
    if step.action is not Action.NOTHING or before.off & people.keys():
        kind = UPDATED if standing.live else SCHEDULED
        standing = standing_of(await record(_entry(kind, standing, change, step.meeting)))
    version, sequence = (int(standing.detail[name]) for name in ("version", "sequence"))
    counts, failed = await told.all(step.meeting, people, version, sequence, "REQUEST")
    gone = {k: each for k, each in before.people.items() if k not in people and each.customer not in change.codes}
    if gone:
        if standing.leaving is None:
            codes = sorted({each.customer for each in gone.values()})
            standing = standing_of(await record(standing.entry(LEAVING, change.version, through=ICS, customers=codes)))
        meeting, version = remembered(standing.detail, change), int(standing.leaving or change.version)
        off, unreached = await told.all(meeting, gone, version, standing.sequence, "CANCEL")
        outcome["called_off"], failed = off["sent"], {**failed, **unreached}
    return outcome | counts, failed


async def _call_off(
    step: Step, change: Change, before: Invited, told: _Told, record: Record, outcome: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, PostroomError]]:
    standing = step.standing
    if standing.ending is None:
        what = {name: standing.detail.get(name) for name in TOLD}
        ending = standing.entry(ENDING, change.version, through=ICS, reason=step.reason, **what)
        standing = standing_of(await record(ending))
    assert standing.ending is not None
    meeting, version = remembered(standing.ending, change), int(standing.ending["version"])
    counts, failed = await told.all(meeting, before.people, version, standing.sequence, "CANCEL")
    if not failed:
        await record(standing.entry(CANCELLED, change.version, through=ICS, reason=step.reason))
    return outcome | counts, failed


class _Told:
    """Tells people of several customers the same, each customer's in its own name."""

    def __init__(self, book: Book, change: Change, customers: Sequence[Customer], check: Check) -> None:
        self._book, self._change, self._customers, self._check = book, change, customers, check
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def all(
        self, meeting: Meeting, people: Mapping[str, Person], version: int, sequence: int, method: Method
    ) -> tuple[dict[str, int], dict[str, PostroomError]]:
        counts, known = dict.fromkeys(COUNTS, 0), {each.code for each in self._customers}
        failed: dict[str, PostroomError] = {
            each.customer: Missing(f"there is no customer {each.customer}")
            for each in people.values()
            if each.customer not in known
        }

        async def one(customer: Customer) -> None:
            addresses = [person.address for person in people.values() if person.customer == customer.code]
            if not addresses:
                return
            notice = notice_of(self._change, customer, version, sequence, method)
            written = partial(Invitations, notice, self._change, meeting, method=method, sequence=sequence)
            try:
                async with self._turns:
                    report = await invite(self._book, notice, addresses, written, self._check)
            except Exception as error:  # one customer's trouble is no other's
                failed[customer.code] = classify(error)
                return
            for name in COUNTS:
                counts[name] += getattr(report, name)

        await asyncio.gather(*map(one, self._customers))
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


def remembered(told: Mapping[str, Any], change: Change) -> Meeting:
    """The meeting as it was last told: the change may have another, or none, by now."""
    start, end = (
        datetime.fromisoformat(str(told[name])).astimezone(ZoneInfo(str(told["zone"])))
        for name in ("startTime", "endTime")
    )
    words = (("", f"{told['title']}\nChange {change.change_id}"),)
    return Meeting(change.change_id, str(told["title"]), start, end, str(told.get("location", "")), words)
