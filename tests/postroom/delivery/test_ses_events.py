"""SES's events settle the book and feed the suppression list."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from postroom.aws.clients import client
from postroom.delivery import ses_events
from postroom.delivery.notice import Notice
from postroom.delivery.send import deliver
from postroom.delivery.ses_events import act, event_of, settle, understand
from postroom.errors import Unparsable
from postroom.ledger.book import Book
from postroom.ledger.deliveries import Delivery
from tests.postroom.delivery.conftest import Account, change

BATCH = "change:c1:1:submitted:111122223333"


def event(book: Book, kind: str, recipient: str, **detail: Any) -> str:
    """An event as SES publishes it through SNS, about a delivery of BATCH."""
    found = book.deliveries.find(BATCH, recipient)
    assert found is not None
    mail = {"messageId": "ses-1", "tags": {"postroom-delivery": [found.delivery_id]}}
    message = json.dumps({"eventType": kind, "mail": mail, kind.lower(): detail})
    return json.dumps({"Type": "Notification", "Message": message})


@pytest.fixture
def unknown(book: Book) -> Delivery:
    book.deliveries.claim(BATCH, "a@example.com")
    return book.deliveries.unknown(BATCH, "a@example.com", "no answer from SES")


@pytest.mark.parametrize("kind", ["Send", "Delivery"])
def test_what_was_unknown_is_sent_when_ses_says_so(book: Book, unknown: Delivery, kind: str) -> None:
    settled = settle(book, event(book, kind, unknown.recipient))
    assert settled is not None
    assert (settled.state, settled.ses_id, settled.reason) == ("sent", "ses-1", None)


def test_an_event_may_come_without_sns(book: Book, unknown: Delivery) -> None:
    bare = json.loads(event(book, "Send", unknown.recipient))["Message"]
    settled = settle(book, bare)
    assert settled is not None
    assert settled.state == "sent"


@pytest.mark.parametrize(
    ("bounce", "state", "reason"),
    [
        ({"bounceType": "Permanent", "bounceSubType": "OnAccountSuppressionList"}, "failed", "suppressed: an earlier"),
        ({"bounceType": "Permanent", "bounceSubType": "UnsubscribedRecipient"}, "failed", "unsubscribed"),
        ({"bounceType": "Transient", "bounceSubType": "MailboxFull"}, "failed", "mailbox full"),
        ({"bounceType": "Transient", "bounceSubType": "General"}, "sent", ""),
        ({"bounceType": "Undetermined", "bounceSubType": "Undetermined"}, "sent", ""),
    ],
)
def test_a_bounce_says_why(book: Book, bounce: dict[str, str], state: str, reason: str) -> None:
    book.deliveries.claim(BATCH, "a@example.com")
    book.deliveries.sent(BATCH, "a@example.com", "ses-1")
    settled = settle(book, event(book, "Bounce", "a@example.com", **bounce))
    assert settled is not None
    assert settled.state == state
    assert (settled.reason or "").startswith(reason)


def test_the_order_of_events_does_not_matter(book: Book, unknown: Delivery) -> None:
    bounce = {"bounceType": "Permanent", "bounceSubType": "UnsubscribedRecipient"}
    settle(book, event(book, "Bounce", unknown.recipient, **bounce))
    settled = settle(book, event(book, "Send", unknown.recipient))
    assert settled is not None
    assert (settled.state, settled.reason) == ("failed", "unsubscribed")


def test_mail_without_our_tag_is_nobodys_business(book: Book) -> None:
    other = {"eventType": "Send", "mail": {"messageId": "x", "tags": {"other": ["y"]}}}
    assert settle(book, json.dumps(other)) is None
    stranger = {"eventType": "Send", "mail": {"messageId": "x", "tags": {"postroom-delivery": ["never heard"]}}}
    assert settle(book, json.dumps(stranger)) is None


@pytest.mark.parametrize(
    "body", ["", "no json", "[1]", '{"Type": "Notification"}', '{"Type":"Notification","Message":"x"}']
)
def test_what_can_not_be_read_is_said_so(book: Book, body: str) -> None:
    with pytest.raises(Unparsable):
        settle(book, body)


@pytest.mark.parametrize(
    "odd", [{}, {"mail": 1}, {"mail": {"tags": []}}, {"mail": {"tags": {"postroom-delivery": []}}}]
)
def test_odd_events_are_passed_over(odd: dict[str, Any]) -> None:
    assert understand(odd) is None


def events_of(account: Account) -> Iterator[str]:
    """Bodies of the events that this local SES has told about the account, until there are no more."""
    sqs = client("sqs")
    queue = sqs.get_queue_url(QueueName="postroom-ses-events")["QueueUrl"]
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        if not messages:
            return
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            if event_of(message["Body"])["mail"]["sendingAccountId"] == account.customer.account:
                yield message["Body"]


class Message:
    def __init__(self, body: str) -> None:
        self.body = body


async def test_a_bounce_and_a_complaint_are_settled_and_suppressed(
    book: Book, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    client("sqs").create_queue(QueueName="postroom-ses-events")  # where this local SES tells
    monkeypatch.setattr(ses_events, "open_book", lambda: book)
    bad, angry = "bounce@simulator.amazonses.com", "complaint@simulator.amazonses.com"
    account.subscribe(["a@example.com", bad, angry])
    ses, told = account.client("sesv2"), change()
    await deliver(book, change=told, customer=account.customer, topic="aws-approval", kind="approval-request")
    for body in events_of(account):
        await act(Message(body))
    notice = Notice.of(told, account.customer, "aws-approval", "approval-request")
    rows = {row.recipient: row for row in book.deliveries.of_batch(notice.batch)}
    assert {key: row.state for key, row in rows.items()} == {"a@example.com": "sent", bad: "failed", angry: "sent"}
    assert rows[bad].reason == "wrong address: smtp; 550 5.1.1 user unknown"
    listed = ses.list_suppressed_destinations()["SuppressedDestinationSummaries"]
    assert {each["EmailAddress"]: each["Reason"] for each in listed} == {bad: "BOUNCE", angry: "COMPLAINT"}
    report = await deliver(
        book, change=told | {"version": 2}, customer=account.customer, topic="aws-approval", kind="approval-request"
    )
    assert (report.sent, report.failed, report.reasons) == (1, 2, {"suppressed": 2})
