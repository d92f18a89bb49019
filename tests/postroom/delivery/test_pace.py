"""All workers of an account share one pace."""

import asyncio
import dataclasses
import itertools
import time

import pytest

from postroom.delivery.pace import HOUR_MS, MARGIN, Allowance, Pace
from postroom.errors import QuotaReached
from postroom.ledger.book import Book
from tests.postroom.delivery.conftest import Account


def of(rate: float, left: float = 1000.0) -> Allowance:
    return Allowance(rate, left)


async def test_slots_of_two_workers_never_overlap(book: Book, account: Account) -> None:
    rate = 50.0
    workers = [Pace(book, account.customer, lambda _: of(rate)) for _ in range(3)]
    chunks = await asyncio.gather(*(worker._reserve(rate) for worker in workers for _ in range(5)))
    slots = sorted(slot for chunk in chunks for slot in chunk)
    gaps = [later - slot for slot, later in itertools.pairwise(slots)]
    assert len(slots) == 15 * 25
    assert min(gaps) > 0.95 / rate  # the two clocks of a machine are not read in the same moment
    assert slots[-1] - slots[0] < len(slots) * MARGIN / rate * 1.2


async def test_idle_time_is_not_saved_up_for_a_burst(book: Book, account: Account) -> None:
    pace = Pace(book, account.customer, lambda _: of(10.0))
    await pace.turn((await pace.slots(1))[0])
    await asyncio.sleep(0.5)
    began = time.monotonic()
    for _ in range(4):
        await pace.turn((await pace.slots(1))[0])
    assert time.monotonic() - began > 0.29
    await pace.close()


async def test_one_who_was_too_fast_makes_all_pause(book: Book, account: Account) -> None:
    one, other = (Pace(book, account.customer, lambda _: of(100.0)) for _ in range(2))
    await one.slow_down(time.monotonic())
    await one.slow_down(time.monotonic())
    first = (await other._reserve(100.0))[0] - time.monotonic()
    assert 0.4 < first < 0.8  # 0.25 and 0.5 seconds


async def test_mails_that_began_before_a_pause_ask_for_no_second_one(book: Book, account: Account) -> None:
    pace = Pace(book, account.customer, lambda _: of(100.0))
    began = time.monotonic()
    for _ in range(5):
        await pace.slow_down(began)
    assert (await pace._reserve(100.0))[0] - time.monotonic() < 0.3


async def test_other_accounts_and_regions_have_their_own_pace(book: Book, account: Account) -> None:
    here = Pace(book, account.customer, lambda _: of(1.0))
    there = Pace(book, dataclasses.replace(account.customer, region="us-east-1"), lambda _: of(1.0))
    for _ in range(3):
        await here._reserve(1.0)
    assert (await there._reserve(1.0))[0] - time.monotonic() < 0.5


async def test_the_customers_own_limit_counts_when_it_is_lower(account: Account) -> None:
    account.allow(MaxSendRate=14.0, Max24HourSend=100.0)
    assert Allowance.of(account.customer) == Allowance(14.0, 100.0)
    assert Allowance.of(dataclasses.replace(account.customer, max_send_rate=2.5)).rate == 2.5
    assert Allowance.of(dataclasses.replace(account.customer, max_send_rate=500.0)).rate == 14.0
    account.allow(Max24HourSend=-1.0)
    assert Allowance.of(account.customer).left_today == float("inf")


async def test_the_next_window_opens_when_our_oldest_mails_are_a_day_old(book: Book, account: Account) -> None:
    pace = Pace(book, account.customer, lambda _: of(10.0, left=0.0))
    with pytest.raises(QuotaReached) as caught:
        await pace.slow_down(time.monotonic())
    assert caught.value.retry_after == pytest.approx(3600, abs=5)  # not ours: we can't know, so we look in an hour
    hour = book.clock.now_ms() // HOUR_MS - 20
    pace._book.deliveries.note(pace.key, "pace", **{f"hour_{hour}": 7, f"hour_{hour - 30}": 9})
    assert 4 * 3600 < ((await pace.quota_reached()).retry_after or 0) <= 5 * 3600
    await pace._reserve(10.0)
    row = book.dynamodb.get_item(**pace._row())["Item"]
    assert f"hour_{hour - 30}" not in row
    assert f"hour_{hour}" in row
