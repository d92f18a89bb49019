"""Telling every subscriber once, through the customer's own SES."""

import asyncio
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from postroom.delivery import aws
from postroom.delivery.notice import Notice
from postroom.delivery.report import reports
from postroom.delivery.send import deliver, resend_failed
from postroom.errors import AuthFailed, BadInput, LeaseLost, Misconfigured, Missing, QuotaReached
from postroom.ledger.book import Book
from postroom.ledger.deliveries import delivery_id
from tests.postroom.delivery.conftest import Account, change

TOPIC, KIND = "aws-approval", "approval-request"


async def tell(book: Book, account: Account, told: dict[str, Any], **given: Any) -> Any:
    return await deliver(book, **({"change": told, "customer": account.customer, "topic": TOPIC, "kind": KIND} | given))


async def test_each_subscriber_gets_one_mail_from_the_customers_own_account(book: Book, account: Account) -> None:
    people = [f"p{n}@example.com" for n in range(25)]
    account.subscribe(people)
    account.subscribe(["out@example.com"], status="OPT_OUT")
    account.subscribe(["silent@example.com"], topic=None)
    told = change()
    report = await tell(book, account, told)
    assert account.told() == sorted(people)
    assert (report.recipients, report.sent, report.failed, report.unknown, report.pending) == (25, 25, 0, 0, 0)
    mail = next(mail for mail in account.outbox() if mail["to"] == ["p7@example.com"])
    notice = Notice.of(told, account.customer, TOPIC, KIND)
    assert mail["tags"] == {"postroom-delivery": delivery_id(notice.batch, "p7@example.com")}
    assert mail["headers"]["List-Unsubscribe"].startswith("<https://")
    assert "amazonSESUnsubscribeUrl" not in mail["text"] + mail["html"]
    assert "Fri 20 Nov 2026, 16:00 – 23:00 Europe/Berlin" in mail["text"]
    assert "Fri 20 Nov 2026, 15:00 – 22:00 UTC" in mail["html"]


async def test_told_again_nobody_gets_a_second_mail_and_newcomers_get_theirs(book: Book, account: Account) -> None:
    account.subscribe(["a@example.com", "b@example.com"])
    told = change()
    await tell(book, account, told)
    account.subscribe(["c@example.com"])
    report = await tell(book, account, told)
    assert account.told() == ["a@example.com", "b@example.com", "c@example.com"]
    assert (report.recipients, report.sent) == (3, 3)


async def test_another_status_of_the_same_version_is_another_notice(book: Book, account: Account) -> None:
    account.subscribe(["a@example.com"])
    told = change()
    await tell(book, account, told)
    await tell(book, account, told | {"status": "approved"}, topic="aws-announce", kind="approved")
    assert account.told() == ["a@example.com", "a@example.com"]


async def test_a_topics_default_counts_for_those_who_said_nothing(book: Book, account: Account) -> None:
    account.subscribe(["silent@example.com"], topic=None)
    account.subscribe(["out@example.com"], topic="aws-announce", status="OPT_OUT")
    await tell(book, account, change(status="approved"), topic="aws-announce", kind="approved")
    assert account.told() == ["silent@example.com"]


async def test_who_unsubscribed_from_all_or_is_suppressed_gets_nothing(book: Book, account: Account) -> None:
    account.subscribe(["a@example.com", "gone@example.com", "Bounced@example.com"])
    ses = account.client("sesv2")
    ses.update_contact(ContactListName="people", EmailAddress="gone@example.com", UnsubscribeAll=True)
    ses.put_suppressed_destination(EmailAddress="bounced@example.com", Reason="BOUNCE")
    report = await tell(book, account, change())
    assert account.told() == ["a@example.com"]
    assert (report.recipients, report.sent, report.failed) == (2, 1, 1)
    assert report.reasons == {"suppressed": 1}
    assert report.details[0] | {"at": ""} == {
        "recipient": "bounced@example.com",
        "state": "failed",
        "reason": "suppressed: an earlier bounce",
        "at": "",
    }


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        (None, ["a@one.example.com", "b@two.example.com"]),
        (("*@one.example.com",), ["a@one.example.com"]),
        (("B@Two.example.com",), ["b@two.example.com"]),
        (("*", "*@*", "*@*.example.com", "example.com", ""), []),
        ((), []),
    ],
)
async def test_a_restriction_of_recipients_fails_closed(
    book: Book, account: Account, allow: tuple[str, ...] | None, expected: list[str]
) -> None:
    account.subscribe(["a@one.example.com", "b@two.example.com"])
    account.customer = dataclasses.replace(account.customer, recipients_allow=allow)
    report = await tell(book, account, change())
    assert account.told() == expected
    assert report.outside == 2 - len(expected)


async def test_two_codes_of_one_account_tell_a_person_once(book: Book, account: Account) -> None:
    account.subscribe([f"p{n}@example.com" for n in range(40)])
    told, twin = change(), dataclasses.replace(account.customer, code="acme-two", name="Acme Two")
    first, second = await asyncio.gather(tell(book, account, told), tell(book, account, told, customer=twin))
    assert account.told() == sorted(f"p{n}@example.com" for n in range(40))
    assert first.sent + second.sent == 40
    assert (first.shared, second.shared) == (second.recipients, first.recipients)


async def test_a_role_that_can_not_be_assumed_is_named_with_its_customer(book: Book, account: Account) -> None:
    broken = dataclasses.replace(account.customer, code="broken", ses_role_arn="arn:aws:iam::123456789012:role/nobody")
    with pytest.raises(AuthFailed, match=r"customer broken: role arn:aws:iam::123456789012:role/nobody"):
        await tell(book, account, change(), customer=broken)
    with pytest.raises(AuthFailed, match="customer broken"):
        aws.check_role(broken)
    assert aws.check_role(account.customer) == account.customer.account


async def test_a_missing_list_or_topic_is_said_not_taken_for_an_empty_one(book: Book, account: Account) -> None:
    with pytest.raises(BadInput, match="no topic 'aws-nothing', only aws-approval"):
        await tell(book, account, change(), topic="aws-nothing")
    with pytest.raises(Missing, match="customer acme: contact list 'nobody'"):
        await tell(book, account, change(), customer=dataclasses.replace(account.customer, contact_list="nobody"))
    with pytest.raises(BadInput, match="no notice of kind 'wedding'"):
        await tell(book, account, change(), kind="wedding")
    with pytest.raises(BadInput, match="no changeId"):
        await tell(book, account, change(changeId=""))


async def test_a_sender_that_is_not_verified_stops_the_run_and_fails_nobody(book: Book, account: Account) -> None:
    account.subscribe([f"p{n}@example.com" for n in range(9)])
    stranger = dataclasses.replace(account.customer, sender="desk@elsewhere.example.org")
    told = change()
    with pytest.raises(Misconfigured, match="customer acme: SES sends nothing: Email address is not verified"):
        await tell(book, account, told, customer=stranger)
    assert account.told() == []
    report = await tell(book, account, told)
    assert (report.recipients, report.sent, report.failed) == (9, 9, 0)


@pytest.mark.parametrize("name", ['"Acme, Inc"', "Änderungen", "Acme (changes)"])
async def test_any_name_of_a_sender_reaches_people(book: Book, account: Account, name: str) -> None:
    account.subscribe(["a@example.com"])
    named = dataclasses.replace(account.customer, sender=f"{name} <desk@example.com>")
    assert (await tell(book, account, change(), customer=named)).sent == 1
    assert named.mailbox.isascii()


async def test_mails_name_the_customers_configuration_set(book: Book, account: Account) -> None:
    account.subscribe(["a@example.com"])
    named = dataclasses.replace(account.customer, configuration_set="told")
    told = change()
    with pytest.raises(Misconfigured, match="Configuration set <told> does not exist"):
        await tell(book, account, told, customer=named)
    account.client("sesv2").create_configuration_set(ConfigurationSetName="told")
    assert (await tell(book, account, told, customer=named)).sent == 1


async def test_a_used_up_daily_quota_waits_for_the_next_window(book: Book, account: Account) -> None:
    account.subscribe([f"p{n:02}@example.com" for n in range(20)])
    account.allow(Max24HourSend=12.0)
    told = change()
    with pytest.raises(QuotaReached, match=r"account .* has used its daily quota; the next window opens at") as caught:
        await tell(book, account, told)
    assert len(account.told()) == 12
    assert 23 * 3600 < (caught.value.retry_after or 0) <= 25 * 3600
    assert caught.value.opens_at.endswith("Z")
    account.allow(Max24HourSend=100.0)
    report = await tell(book, account, told)
    assert (report.sent, len(account.told()), len(set(account.told()))) == (20, 20, 20)


async def test_who_lost_the_lease_sends_no_more(book: Book, account: Account) -> None:
    account.subscribe([f"p{n}@example.com" for n in range(60)])
    account.allow(MaxSendRate=200.0)
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 30:
            raise LeaseLost("another holder has it")

    told = change()
    with pytest.raises(LeaseLost):
        await tell(book, account, told, check=check)
    before = account.told()
    assert 0 < len(before) < 60
    rows = {row.recipient: row.state for row in book.deliveries.of_batch(f"{batch_of(told, account)}")}
    assert {key for key, state in rows.items() if state == "sent"} == set(before)
    assert set(rows.values()) <= {"sent", "pending"}


async def test_a_cancelled_run_leaves_nothing_unknown(book: Book, account: Account) -> None:
    account.subscribe([f"p{n}@example.com" for n in range(40)])
    account.allow(MaxSendRate=20.0)
    told = change()
    running = asyncio.create_task(tell(book, account, told))
    async with asyncio.timeout(20):
        while len(account.told()) < 5:
            await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    sent = set(account.told())
    rows = {row.recipient: row.state for row in book.deliveries.of_batch(batch_of(told, account))}
    assert {key for key, state in rows.items() if state == "sent"} == sent
    assert set(rows.values()) <= {"sent", "pending"}
    account.allow(MaxSendRate=1000.0)
    report = await tell(book, account, told)
    assert (report.sent, account.told()) == (40, sorted(f"p{n}@example.com" for n in range(40)))


async def test_only_the_failed_ones_are_sent_again(book: Book, account: Account) -> None:
    account.subscribe(["a@example.com", "b@example.com"])
    ses = account.client("sesv2")
    ses.put_suppressed_destination(EmailAddress="b@example.com", Reason="COMPLAINT")
    told = change()
    await tell(book, account, told)
    account.subscribe(["late@example.com"])
    ses.delete_suppressed_destination(EmailAddress="b@example.com")
    report = await resend_failed(book, change=told, customer=account.customer, topic=TOPIC, kind=KIND)
    assert account.told() == ["a@example.com", "b@example.com"]
    assert (report.recipients, report.sent, report.failed) == (2, 2, 0)


async def test_a_second_try_keeps_to_the_rules_of_the_first(book: Book, account: Account) -> None:
    people = [f"{name}@example.com" for name in ("suppressed", "left", "unwanted", "outside", "well")]
    account.subscribe(people)
    told = change()
    await tell(book, account, told, customer=dataclasses.replace(account.customer, recipients_allow=()))
    for person in people:
        book.deliveries.plan(batch_of(told, account), person, detail={"customer": "acme"})
        book.deliveries.failed(batch_of(told, account), person, "wrong address: as it was")
    ses = account.client("sesv2")
    ses.put_suppressed_destination(EmailAddress="suppressed@example.com", Reason="BOUNCE")
    ses.delete_contact(ContactListName="people", EmailAddress="left@example.com")
    ses.update_contact(ContactListName="people", EmailAddress="unwanted@example.com", UnsubscribeAll=True)
    some = tuple(person for person in people if not person.startswith("outside"))
    strict = dataclasses.replace(account.customer, recipients_allow=some)
    report = await resend_failed(book, change=told, customer=strict, topic=TOPIC, kind=KIND)
    assert account.told() == ["well@example.com"]
    assert (report.recipients, report.sent, report.failed, report.pending) == (5, 1, 4, 0)


async def test_a_customer_whose_role_fails_is_in_the_report(book: Book, account: Account) -> None:
    broken = dataclasses.replace(account.customer, ses_role_arn=f"arn:aws:iam::{account.customer.account}:role/nobody")
    told = change()
    with pytest.raises(AuthFailed):
        await tell(book, account, told, customer=broken)
    assert [(each.customer, each.recipients) for each in reports(book, told["changeId"])] == [("acme", 0)]


async def test_who_left_the_list_while_waiting_is_not_told(book: Book, account: Account) -> None:
    account.subscribe(["a@example.com"])
    told = change()
    batch = batch_of(told, account)
    book.deliveries.plan(batch, "left@example.com", detail={"customer": "acme"})
    await asyncio.sleep(0.01)
    report = await tell(book, account, told)
    assert account.told() == ["a@example.com"]
    assert report.details[0]["reason"] == "no longer subscribed"


def batch_of(told: dict[str, Any], account: Account) -> str:
    return Notice.of(told, account.customer, TOPIC, KIND).batch


async def test_a_notice_to_many_pages_reaches_all(
    book: Book, new_account: Callable[..., Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.delivery.recipients.PAGE", 7)
    account = new_account()
    people = [f"p{n:02}@example.com" for n in range(30)]
    account.subscribe(people)
    report = await tell(book, account, change())
    assert (report.sent, account.told()) == (30, people)
    assert json.loads(json.dumps(report.as_json()))["recipients"] == 30
