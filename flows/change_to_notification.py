"""A change is told to the people of one customer.

    is its trigger still there? → load the archive → ask for the meeting → what is to be told, and to which topic? →
    send, as the customer → record it in the archive → take the trigger away, if it is still the one that was processed

A newer status may overwrite the trigger meanwhile: then it stays, for the run that it has started. The archive
is written before the trigger is taken away; when that fails, everything is kept for the next attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Scheduled, State

from blocks.customer import find_customer
from flows import runs, show
from flows.notice import told_before, told_once
from flows.once import PutOff, Subject, once, own_key
from flows.schedule_meeting import ask_for_meeting
from postroom.aws.names import Names
from postroom.changes.lifecycle import SYSTEM
from postroom.changes.model import Change, Modification, now
from postroom.changes.notices import PROCESSED, Notice, notice_key
from postroom.changes.store import ChangeStore, open_store, trigger_key
from postroom.delivery.customer import Customer
from postroom.delivery.send import deliver
from postroom.errors import BadInput, Missing, RateLimited, classify
from postroom.ledger import Holding, Work
from postroom.ledger.book import open_book
from postroom.settings import settings

log = logging.getLogger("postroom.flows")
COUNTS = ("recipients", "sent", "failed", "unknown", "shared", "outside")


@flow(name="change-to-notification", flow_run_name="change {change_id} for {code}", retries=0)
async def change_to_notification(
    code: str, change_id: str, bucket: str, key: str, sequencer: str
) -> dict[str, Any] | State[Any]:
    """Tell the people of a customer what a change has become, once."""
    key_in_book = own_key(f"change:{change_id}:{code}:{sequencer}")
    parameters = {"code": code, "change_id": change_id, "bucket": bucket, "key": key, "sequencer": sequencer}
    subject = Subject(
        key_in_book,
        "change",
        "Change",
        f"CHANGE#{change_id}",
        Work("change-to-notification", parameters, tags(key_in_book, code, change_id)),
        {"customer": code},
    )
    await runs.introduce(f"change {change_id} for {code}", tags(key_in_book, code, change_id))
    try:
        return await once(subject, lambda holding: notify(code, change_id, bucket, key, holding))
    except PutOff as later:  # a day's quota is used up: the run waits for the next window, as the book does
        return Scheduled(name="Rescheduled", message=str(later), scheduled_time=wait_until(later))


def wait_until(later: PutOff) -> datetime:
    """When the limit that put the work off has said to come back."""
    limit = later.__cause__
    seconds = limit.retry_after if isinstance(limit, RateLimited) else None
    return datetime.now(UTC) + timedelta(seconds=seconds or 60)


async def notify(code: str, change_id: str, bucket: str, key: str, holding: Holding) -> dict[str, Any]:
    """What was told to the customer's people; BadInput when the trigger is not a customer's own."""
    refuse_strangers(code, change_id, bucket, key)
    store = open_store()
    etag = await asyncio.to_thread(store.shelf.tag, key)
    if etag is None:
        log.info("the trigger %s is gone: it was seen to before", key)
        return {"told": False, "reason": "its trigger is gone: it was seen to before"}
    change = await load(store, change_id)
    asked = await meeting_asked(change)  # first: a role that is broken, or a quota, holds up the notice and not this
    its_own = await as_the_customer_has_it(store, change, code)
    outcome: dict[str, Any]
    if its_own is None:
        outcome = {"told": False, "reason": "an edit has taken this customer off the change"}
    elif its_own is not change and (twin := await still_concerned(change, code)):
        outcome = {"told": False, "reason": f"its people are told as those of {twin}, which has the same account"}
        await record(store, its_own, code, outcome)
    else:
        book = open_book()
        outcome = await told_once(book, its_own, code, holding, lambda held, what: tell(its_own, code, what, held))
        holding.check()
        await record(store, its_own, code, outcome, before=await told_before(book, its_own, code))
    if not asked:
        await ask_for_meeting(change)
    await take_away(store, key, etag)
    return outcome


async def meeting_asked(change: Change) -> bool:
    """Whether the change's meeting is asked for, if it has one; a failure is no reason to tell nobody."""
    try:
        await ask_for_meeting(change)
    except Exception as error:
        log.warning("the meeting of %s is asked for again after the notice: %s", change.change_id, classify(error))
        return False
    return True


async def as_the_customer_has_it(store: ChangeStore, change: Change, code: str) -> Change | None:
    """The change, or (once an edit took this customer off) the one that is off; BadInput for who was never named."""
    if code in change.codes:
        return change
    if (parting := await asyncio.to_thread(store.parting, change, code)) is not None:
        return parting
    if await asyncio.to_thread(store.ever_named, change.change_id, code):
        return None
    raise BadInput(f"change {change.change_id} does not name the customer {code}", code="not-affected")


async def still_concerned(change: Change, code: str) -> str | None:
    """A customer that the change names and that shares the account of this one, and so its people."""
    account = (await recognise(code)).account
    for each in change.codes:
        if (other := await find_customer(each)) is not None and other.account == account:
            return each
    return None


def refuse_strangers(code: str, change_id: str, bucket: str, key: str) -> None:
    """BadInput unless the object is this customer's trigger in our own bucket."""
    if bucket != Names(settings().prefix).changes_bucket:
        raise BadInput(f"{bucket!r} is not the bucket of our changes", code="foreign-bucket")
    if key != trigger_key(code, change_id):
        raise BadInput(f"{key!r} is not a trigger of the customer {code}", code="foreign-key")


@task(name="load the change", cache_policy=NO_CACHE, retries=0)
async def load(store: ChangeStore, change_id: str) -> Change:
    """The change as the archive has it now; the trigger's own words do not count."""
    return await asyncio.to_thread(store.read, change_id)


@task(name="tell the customer's people", cache_policy=NO_CACHE, retries=0)
async def tell(change: Change, code: str, what: Notice, holding: Holding) -> dict[str, Any]:
    """How many were told; each at most once, however often this runs."""
    customer = await recognise(code)
    report = await deliver(
        open_book(),
        change=change.as_json(),
        customer=customer,
        topic=what.topic,
        kind=what.kind,
        check=holding.check,
    )
    await show.notice(change.change_id, code, report.as_json())
    return {name: getattr(report, name) for name in COUNTS}


async def recognise(code: str) -> Customer:
    customer = await find_customer(code)
    if customer is None:
        raise Missing(f"there is no customer {code}; to mend: postroom customers load FILE")
    return customer


@task(name="record it in the archive", cache_policy=NO_CACHE, retries=0)
async def record(
    store: ChangeStore,
    change: Change,
    code: str,
    outcome: dict[str, Any],
    *,
    before: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> None:
    """An entry in the archive, once per notice; also of those `before` this, where one is missing."""
    recorded = {each.key for each in change.modifications}
    missing = {key: detail for key, detail in before.items() if key not in recorded}
    for key, detail in (*missing.items(), (notice_key(change, code), outcome)):
        entry = Modification(at=now(), by=SYSTEM, type=PROCESSED, customer=code, detail=detail, key=key)
        await asyncio.to_thread(store.record, change.change_id, entry)


@task(name="take the trigger away", cache_policy=NO_CACHE, retries=0)
async def take_away(store: ChangeStore, key: str, etag: str) -> None:
    """Remove the trigger that was processed; a newer one stays. A failure is no more than untidy."""
    try:
        if not await asyncio.to_thread(store.shelf.remove, key, only=etag):
            log.info("%s was written anew meanwhile; it is left to its own run", key)
    except Exception as error:
        log.warning("%s could not be removed, though it is done with: %s", key, classify(error))


def tags(key: str, code: str, change_id: str) -> tuple[str, ...]:
    return ("job:change", f"key:{key}", f"customer:{code}", f"change:{change_id}")
