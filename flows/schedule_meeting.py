"""The meeting of a change: made, moved or called off once per version, however many customers ask for it.

wait for work on earlier versions → load the archive → who is invited, across all customers?
→ what has to happen? → in the Microsoft calendar, or by mail (never both) → record it in the archive
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from blocks.customer import find_customer
from blocks.graph import find_access
from flows import runs
from flows.once import PutOff, Subject, once, own_key
from postroom.changes.model import Change, Modification, Status
from postroom.changes.store import ChangeStore, open_store
from postroom.delivery.customer import Customer
from postroom.errors import Missing, PostroomError, RateLimited, Unavailable
from postroom.ledger import Event, Holding, Work
from postroom.ledger import State as RowState
from postroom.ledger.book import open_book
from postroom.meetings.attendees import Attendees, gather
from postroom.meetings.by_mail import keep_by_mail
from postroom.meetings.graph import GraphCalendar
from postroom.meetings.invited import inviting
from postroom.meetings.keeping import keep, with_those_invited
from postroom.meetings.meeting import is_on
from postroom.meetings.microsoft import Access, Microsoft
from postroom.meetings.plan import earlier_keys, key_of, ledger_key, plan, through
from postroom.meetings.standing import GRAPH, standing_of
from postroom.settings import settings

log = logging.getLogger("postroom.flows")
ASK_AGAIN_SECONDS = 0.3


@flow(name="schedule-meeting", flow_run_name="meeting of {change_id} v{version}", retries=0)
async def schedule_meeting(change_id: str, version: int, off: bool = False) -> dict[str, Any] | State[Any]:
    """See to the meeting of one version of a change, once; `off`: to calling it off."""
    key = own_key(key_of(change_id, version, off=off))
    subject = Subject(key, "change", "Meeting", f"CHANGE#{change_id}", work(change_id, version, off, key))
    await runs.introduce(f"meeting of {change_id} v{version}{' is off' if off else ''}", tags(change_id, key))
    try:
        return await once(subject, lambda holding: see_to(change_id, version, off, holding))
    except PutOff as later:
        return Completed(name="Put off", message=str(later))


async def see_to(change_id: str, version: int, off: bool, holding: Holding) -> dict[str, Any]:
    """What was done about the meeting; an error, after all else is done, that names customers we could not reach."""
    store = open_store()
    await earlier_first(change_id, version, off, holding)
    change = await load(store, change_id)
    if change.version != version:
        return {"action": "nothing", "reason": f"version {change.version} has overtaken version {version}"}
    customers, missing = await recognise(change.codes)
    attendees = await who_is_invited(customers, missing) if is_on(change) else Attendees()
    access = await find_access()
    outcome, unreached = await carry_out(store, change, attendees, customers, access, holding)
    if unreached:
        raise _unreached(change_id, unreached)
    return outcome


async def earlier_first(change_id: str, version: int, off: bool, holding: Holding) -> None:
    """Wait while an earlier version's meeting is seen to; one that has not begun will see that it is overtaken."""
    keys, book = earlier_keys(change_id, version, off=off), open_book()
    while keys:
        rows = await asyncio.to_thread(book.leases.find_many, keys)
        now = book.clock.now_ms()
        if not any(row.state is RowState.WORKING and row.effective_until > now for row in rows.values()):
            return
        holding.check()
        await asyncio.sleep(ASK_AGAIN_SECONDS)


@task(name="load the change", cache_policy=NO_CACHE, retries=0)
async def load(store: ChangeStore, change_id: str) -> Change:
    """The change as the archive has it now."""
    return await asyncio.to_thread(store.read, change_id)


async def recognise(codes: Iterable[str]) -> tuple[list[Customer], dict[str, PostroomError]]:
    """The customers of these codes, in that order, and those whom nobody knows."""
    found = [(code, await find_customer(code)) for code in codes]
    missing: dict[str, PostroomError] = {
        code: Missing(f"there is no customer {code}") for code, each in found if not each
    }
    return [each for _, each in found if each is not None], missing


@task(name="who is invited", cache_policy=NO_CACHE, retries=0)
async def who_is_invited(customers: list[Customer], missing: dict[str, PostroomError]) -> Attendees:
    """The subscribers of all affected customers, each once."""
    return await gather(customers, missing)


@task(name="see to the calendar", cache_policy=NO_CACHE, retries=0)
async def carry_out(
    store: ChangeStore,
    change: Change,
    attendees: Attendees,
    customers: list[Customer],
    access: Access | None,
    holding: Holding,
) -> tuple[dict[str, Any], dict[str, PostroomError]]:
    """What was done, and the customers who could not be reached."""

    async def record(entry: Modification) -> Change:
        holding.check()
        after = await asyncio.to_thread(store.record, change.change_id, entry)
        if not any(each.key == entry.key and each.detail == entry.detail for each in after.modifications):
            raise Unavailable(f"another run has recorded {entry.key} of change {change.change_id} meanwhile")
        return after

    if through(standing_of(change), graph=access is not None) == GRAPH:
        assert access is not None
        async with Microsoft(access, tries=settings().call_tries) as microsoft:
            calendar = GraphCalendar(microsoft)
            attendees = await with_those_invited(attendees, change, calendar)
            step = plan(change, attendees, graph=True)
            return await keep(step, change, attendees, calendar, record, holding.check), dict(attendees.unread)
    step = plan(change, attendees, graph=access is not None)
    book = open_book()
    before = await asyncio.to_thread(inviting, book, change)  # an edit may have taken some of them off the change
    former, _ = await recognise(code for code in before if code not in change.codes)
    everybody = [*customers, *former]
    outcome, failed = await keep_by_mail(step, change, attendees, everybody, book, record, holding.check)
    return outcome, {**attendees.unread, **failed}


async def ask_for_meeting(change: Change) -> None:
    """A run that sees to the change's meeting, if it has or had one: one per version, and one when it is off."""
    book = open_book()
    off = change.status in (Status.CANCELLED, Status.REJECTED)
    if change.status in (Status.DRAFT, Status.COMPLETED):
        return
    if (off or change.meeting_invite is None) and not standing_of(change).may_exist:
        # Nothing is recorded, but a run may be about to: the book knows whether one was ever asked for.
        keys = earlier_keys(change.change_id, change.version, off=off)
        if not keys or not await asyncio.to_thread(book.leases.find_many, keys):
            return
    key = ledger_key(change)
    told = Event("Meeting Requested", f"CHANGE#{change.change_id}", "change", {"version": change.version, "off": off})
    try:
        await runs.ask_for(book, key, "change", work(change.change_id, change.version, off, key), event=told)
    except Missing as error:
        log.warning("the meeting waits in the book: %s", error)


def work(change_id: str, version: int, off: bool, key: str) -> Work:
    parameters = {"change_id": change_id, "version": version, "off": off}
    return Work("schedule-meeting", parameters, tags(change_id, key))


def tags(change_id: str, key: str) -> tuple[str, ...]:
    return ("job:change", f"key:{key}", f"change:{change_id}")


def _unreached(change_id: str, unreached: dict[str, PostroomError]) -> PostroomError:
    """One error for all; worth a retry when that of any of them is."""
    said = "; ".join(f"{code}: {error}" for code, error in sorted(unreached.items()))
    text = f"the meeting of change {change_id} is seen to, but not for {said}"
    limits = [error.retry_after for error in unreached.values() if isinstance(error, RateLimited) and error.retry_after]
    if limits:
        return RateLimited(text, retry_after=max(limits))
    if any(error.retryable for error in unreached.values()):
        return Unavailable(text)
    return type(next(iter(unreached.values())))(text) if len(unreached) == 1 else Missing(text)
