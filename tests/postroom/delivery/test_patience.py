"""What has to wait is waited for: first in pauses, then by being put off; nobody is failed for it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config

from postroom.delivery import aws, pace
from postroom.delivery.afloat import afloat
from postroom.delivery.notice import Notice
from postroom.delivery.outgoing import Outgoing
from postroom.delivery.send import deliver
from postroom.errors import BadInput, Misconfigured, RateLimited
from postroom.ledger.book import Book
from postroom.ledger.deliveries import Delivery
from postroom.settings import load
from tests.postroom.delivery.conftest import Account, change
from tests.postroom.delivery.faulty import Faulty
from workers.parts import free_port

TOPIC, KIND = "aws-approval", "approval-request"
PEOPLE = [f"p{n:02}@example.com" for n in range(40)]


async def tell(book: Book, account: Account, told: dict[str, Any]) -> Any:
    return await deliver(book, change=told, customer=account.customer, topic=TOPIC, kind=KIND)


def through(proxy: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SESV2", proxy.url)
    aws.forget()


async def test_some_seconds_of_nothing_but_throttles_are_waited_out(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.subscribe(PEOPLE)
    with Faulty(local_aws, 1.0, faults=("throttle",)) as proxy:
        through(proxy, monkeypatch)
        asyncio.get_running_loop().call_later(3, lambda: setattr(proxy, "share", 0.0))
        report = await tell(book, account, change())
        assert proxy.done["throttle"] >= 3
    assert (report.sent, account.told()) == (40, PEOPLE)


async def test_when_throttles_do_not_end_the_rest_is_put_off_and_nobody_failed(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PAUSE_SECONDS", 0.01)
    account.subscribe(PEOPLE)
    told = change()
    with Faulty(local_aws, 1.0, faults=("throttle",)) as proxy:
        through(proxy, monkeypatch)
        with pytest.raises(RateLimited) as caught:
            await tell(book, account, told)
        assert caught.value.retry_after
        proxy.share = 0.0
        report = await tell(book, account, told)
    assert (report.recipients, report.sent, account.told()) == (40, 40, PEOPLE)


async def test_an_ses_that_is_not_reached_is_waited_for_in_the_same_way(
    book: Book, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PAUSE_SECONDS", 0.01)
    account.subscribe(PEOPLE)
    nowhere = boto3.session.Session().client(
        "sesv2",
        endpoint_url=f"http://127.0.0.1:{free_port()}",
        region_name="eu-west-1",
        aws_access_key_id=account.customer.account,
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}),
    )
    told = change()
    with monkeypatch.context() as away:
        away.setattr(aws, "sending", lambda customer: nowhere)
        with pytest.raises(RateLimited, match="could not be reached") as caught:
            await tell(book, account, told)
    assert caught.value.retry_after
    report = await tell(book, account, told)
    assert (report.sent, account.told()) == (40, PEOPLE)


async def test_an_ses_without_tls_is_not_reached_and_nobody_is_unknown(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PAUSE_SECONDS", 0.01)
    account.subscribe(PEOPLE)
    told = change()
    with monkeypatch.context() as broken:
        broken.setenv("AWS_ENDPOINT_URL_SESV2", local_aws.replace("http://", "https://"))
        sending = aws.sending(account.customer)
        broken.setattr(aws, "sending", lambda customer: sending)
        broken.delenv("AWS_ENDPOINT_URL_SESV2")
        with pytest.raises(RateLimited, match="could not be reached"):
            await tell(book, account, told)
    report = await tell(book, account, told)
    assert (report.sent, report.unknown) == (40, 0)


async def test_when_ses_gives_no_clear_answers_it_is_left_alone_and_tried_with_one_mail(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [f"p{n:03}@example.com" for n in range(200)]
    account.subscribe(people)
    told = change()
    batch = Notice.of(told, account.customer, TOPIC, KIND).batch

    def unknown() -> int:
        return sum(row.state == "unknown" for row in book.deliveries.of_batch(batch))

    with Faulty(local_aws, 1.0, faults=("away",)) as proxy:
        through(proxy, monkeypatch)
        with pytest.raises(RateLimited, match="no clear answer to") as caught:
            await tell(book, account, told)
        assert caught.value.retry_after
        lost = unknown()
        assert 10 <= lost <= 64, "what was on its way when it was seen, and no more"
        with pytest.raises(RateLimited):
            await tell(book, account, told)
        assert unknown() == lost + 1
        proxy.share = 0.0
        report = await tell(book, account, told)
    assert (report.sent, report.unknown) == (200 - lost - 1, lost + 1)


async def test_the_same_refusal_of_everybody_is_not_about_their_addresses(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.subscribe(PEOPLE)
    told = change()
    with Faulty(local_aws, 1.0, faults=("bad request",)) as proxy:
        through(proxy, monkeypatch)
        with pytest.raises(Misconfigured, match="customer acme: SES refuses every mail: The value of a tag"):
            await tell(book, account, told)
        proxy.share = 0.0
        report = await tell(book, account, told)
    assert (report.sent, report.failed, account.told()) == (40, 0, PEOPLE)


async def test_nobody_is_claimed_for_the_length_of_a_pause(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PAUSE_SECONDS", 8.0)
    account.subscribe(PEOPLE[:3])
    told = change()
    batch = Notice.of(told, account.customer, TOPIC, KIND).batch
    with Faulty(local_aws, 1.0, faults=("throttle",)) as proxy:
        through(proxy, monkeypatch)
        running = asyncio.create_task(tell(book, account, told))
        async with asyncio.timeout(20):
            while not proxy.done["throttle"]:
                await asyncio.sleep(0.02)
        deadline = time.monotonic() + 7
        async with asyncio.timeout(20):
            while {row.state for row in book.deliveries.of_batch(batch)} != {"pending"}:
                await asyncio.sleep(0.02)
        assert time.monotonic() < deadline, "given back at once, not after the pause"
        proxy.share = 0.0
        assert (await running).sent == 3


async def test_who_pauses_takes_no_room_from_others(
    book: Book,
    account: Account,
    new_account: Callable[..., Account],
    local_aws: str,
    provisioned: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "PAUSE_SECONDS", 60.0)
    monkeypatch.setenv("POSTROOM_DELIVERY_AT_ONCE", "1")
    narrow, other = Book(load()), new_account("other")
    account.subscribe(PEOPLE)
    other.subscribe(PEOPLE[:3])
    with Faulty(local_aws, 1.0, faults=("throttle",)) as proxy:
        through(proxy, monkeypatch)
        pausing = asyncio.create_task(tell(narrow, account, change()))
        async with asyncio.timeout(20):
            while not proxy.done["throttle"]:
                await asyncio.sleep(0.02)
        proxy.share = 0.0
        async with asyncio.timeout(20):
            assert (await tell(narrow, other, change())).sent == 3
        pausing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pausing


async def test_a_refusal_that_is_not_about_the_address_fails_nobody(
    book: Book, account: Account, local_aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.subscribe(PEOPLE)
    told = change()
    with Faulty(local_aws, 1.0, faults=("conflict",)) as proxy:
        through(proxy, monkeypatch)
        with pytest.raises(Misconfigured, match="customer acme: SES refused a mail: ConflictException"):
            await tell(book, account, told)
        proxy.share = 0.0
        report = await tell(book, account, told)
    assert (report.sent, report.failed, account.told()) == (40, 0, PEOPLE)


async def test_a_mail_that_can_not_be_written_has_failed_and_is_not_unknown(book: Book, account: Account) -> None:
    class Unwritable(Outgoing):
        def content(self, address: str) -> dict[str, Any]:
            raise BadInput("a word too much")

    outgoing = Unwritable(Notice.of(change(), account.customer, TOPIC, KIND), "s", "t", "h")
    tried = outgoing.hand_over(Delivery("b", "a@example.com", "id", "sending"), "a@example.com")
    assert (tried.ending.state, tried.trouble) == ("failed", None)
    assert "a word too much" in str(tried.ending.reason)


def test_the_bound_on_mails_in_flight_holds_across_threads_and_their_event_loops() -> None:
    most, now, highest = 5, 0, 0

    async def work() -> None:
        async def one() -> None:
            nonlocal now, highest
            async with afloat(most).room_for(2):
                now += 2
                highest = max(highest, now)
                await asyncio.sleep(0.01)
                now -= 2

        await asyncio.gather(*(one() for _ in range(20)))

    async def both() -> None:
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, work()) for _ in range(3)))

    asyncio.run(asyncio.wait_for(both(), 20))
    assert (highest, now) == (4, 0)


async def test_several_changes_at_once_share_a_slow_account_and_all_is_sent(
    account: Account, provisioned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits longer for its turn than a claim may last."""
    monkeypatch.setenv("POSTROOM_DELIVERY_CALL_SECONDS", "1")
    account.subscribe(["a@example.com", "b@example.com", "c@example.com"])
    account.allow(MaxSendRate=2.5)
    slow = Book(load())
    began = time.monotonic()
    async with asyncio.timeout(60):
        found = await asyncio.gather(*(tell(slow, account, change()) for _ in range(6)))
    assert [report.sent for report in found] == [3] * 6
    assert len(account.outbox()) == 18
    assert time.monotonic() - began < 1.5 * 18 / 2.5, "no turn is wasted"
