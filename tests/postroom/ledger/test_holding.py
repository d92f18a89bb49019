"""Holding a lease while a body works."""

import asyncio
import threading
import uuid
from typing import Any

import pytest

from postroom.errors import LeaseLost
from postroom.ledger import Book, Granted, Holding, Lease, State, hold
from postroom.ledger.book import new_holder
from tests.patience import PATIENCE


def taken(book: Book, key: str) -> Lease:
    answer = book.leases.start(key, "task", new_holder())
    assert isinstance(answer, Granted)
    return answer.lease


@pytest.fixture
def key() -> str:
    return f"task:{uuid.uuid4().hex}"


@pytest.fixture
def short(book: Book, monkeypatch: pytest.MonkeyPatch) -> Book:
    monkeypatch.setattr(book.leases, "promise", 0.6)
    return book


async def until(condition: object, seconds: float = 10) -> None:
    seconds *= PATIENCE
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)


async def test_beats_keep_the_lease_longer_than_its_promise(short: Book, key: str) -> None:
    lease = taken(short, key)
    async with hold(short, lease) as holding:
        await until(lambda: holding.lease.stop_at > lease.stop_at + 1)
        holding.check()
    assert short.leases.finish(holding.lease, State.DONE).state is State.DONE


async def test_a_body_whose_lease_is_taken_is_stopped(short: Book, key: str) -> None:
    lease = taken(short, key)
    with pytest.raises(LeaseLost):
        async with hold(short, lease):
            short.dynamodb.update_item(
                TableName=short.names.leases,
                Key={"key": {"S": key}},
                UpdateExpression="SET fence = fence + :one, holder = :other",
                ExpressionAttributeValues={":one": {"N": "1"}, ":other": {"S": "other"}},
            )
            await asyncio.sleep(30)


async def test_a_body_whose_beats_do_not_get_through_stops_itself(
    short: Book, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = taken(short, key)

    def away(*_: object, **__: object) -> None:
        raise ConnectionError("away")

    monkeypatch.setattr(short.leases, "beat", away)
    with pytest.raises(LeaseLost, match="stopped"):
        async with hold(short, lease):
            await asyncio.sleep(30)


async def test_a_cancellation_from_outside_stays_a_cancellation(short: Book, key: str) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with hold(short, taken(short, key)):
            entered.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(body())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("ending", ["finish", "hand_back"])
async def test_no_beat_meets_a_row_that_has_ended_though_its_answer_is_slow(
    short: Book, key: str, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    beaten = threading.Event()
    beat = short.leases.beat

    def seen(*given: Any, **more: Any) -> Lease:
        beaten.set()
        return beat(*given, **more)

    def end_slowly(lease: Lease, *given: Any) -> Any:
        row = getattr(short.leases, ending)(lease, *given)
        monkeypatch.setattr(short.leases, "beat", seen)
        beaten.wait(short.leases.promise * 1.2)  # longer than the lease holds, and time for several beats
        return row

    lease = taken(short, key)
    async with hold(short, lease) as holding:
        await holding.end(end_slowly, *([State.DONE] if ending == "finish" else []))
    assert not beaten.is_set()
    assert short.leases.read(key).state is (State.DONE if ending == "finish" else State.WAITING)


async def test_an_ending_waits_for_the_beat_that_is_on_its_way(
    short: Book, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat, begun, go_on = short.leases.beat, threading.Event(), threading.Event()

    def slow(*given: Any, **more: Any) -> Lease:
        begun.set()
        go_on.wait(5)
        return beat(*given, **more)

    monkeypatch.setattr(short.leases, "beat", slow)
    async with hold(short, taken(short, key)) as holding:
        await until(begun.is_set)
        ending = asyncio.create_task(holding.end(short.leases.finish, State.DONE))
        await asyncio.sleep(0)  # it has asked for its turn
        go_on.set()
        assert (await ending).state is State.DONE


async def test_who_has_let_go_may_not_act_any_more(short: Book, key: str) -> None:
    holding = Holding(short, taken(short, key))
    await holding.end(short.leases.hand_back)
    with pytest.raises(LeaseLost, match="has let go"):
        holding.check()
