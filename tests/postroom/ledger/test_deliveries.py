"""Deliveries and threads: told once; what is unknown stays unknown until it is settled."""

import uuid

import pytest

from postroom.ledger import Book
from postroom.ledger.deliveries import SENDING_MS, delivery_id
from postroom.ledger.threads import KEPT_ENTRIES, Said


@pytest.fixture
def batch() -> str:
    return f"change:{uuid.uuid4().hex[:8]}"


def test_one_of_two_senders_may_send(book: Book, batch: str) -> None:
    _, first = book.deliveries.claim(batch, "a@example.com")
    _, second = book.deliveries.claim(batch, "a@example.com")
    assert (first, second) == (True, False)


def test_what_was_sent_is_not_claimed_again(book: Book, batch: str) -> None:
    book.deliveries.claim(batch, "a@example.com")
    book.deliveries.sent(batch, "a@example.com", "ses-1")
    found, mine = book.deliveries.claim(batch, "a@example.com")
    assert (found.state, found.ses_id, mine) == ("sent", "ses-1", False)


def test_a_throttled_one_may_be_tried_again(book: Book, batch: str) -> None:
    book.deliveries.claim(batch, "a@example.com")
    book.deliveries.pending_again(batch, "a@example.com", "throttled")
    found, mine = book.deliveries.claim(batch, "a@example.com")
    assert (found.tries, mine) == (2, True)


def test_one_whose_sender_died_becomes_unknown_and_an_event_settles_it(book: Book, batch: str) -> None:
    book.deliveries.claim(batch, "a@example.com")
    book.dynamodb.update_item(
        TableName=book.names.deliveries,
        Key={"batch": {"S": batch}, "recipient": {"S": "a@example.com"}},
        UpdateExpression="SET #at = :long_ago",
        ExpressionAttributeNames={"#at": "at"},
        ExpressionAttributeValues={":long_ago": {"N": str(book.clock.now_ms() - SENDING_MS - 1000)}},
    )
    found, mine = book.deliveries.claim(batch, "a@example.com")
    assert (found.state, mine) == ("unknown", False)
    settled = book.deliveries.settle(delivery_id(batch, "a@example.com"), "sent", ses_id="ses-9")
    assert settled is not None
    assert (settled.state, settled.ses_id, settled.reason) == ("sent", "ses-9", None)


def test_a_late_send_event_does_not_undo_a_failure(book: Book, batch: str) -> None:
    book.deliveries.claim(batch, "a@example.com")
    book.deliveries.failed(batch, "a@example.com", "no such address")
    settled = book.deliveries.settle(delivery_id(batch, "a@example.com"), "sent")
    assert settled is not None
    assert settled.state == "failed"
    assert book.deliveries.settle("unheard-of", "sent") is None


def test_a_batch_is_listed_whole(book: Book, batch: str) -> None:
    for n in range(5):
        book.deliveries.plan(batch, f"{n}@example.com")
    assert {d.state for d in book.deliveries.of_batch(batch)} == {"pending"}
    assert len(list(book.deliveries.of_batch(batch))) == 5


def test_a_thread_keeps_each_mail_once_and_only_the_newest(book: Book) -> None:
    thread = uuid.uuid4().hex
    for n in [*range(KEPT_ENTRIES + 5), 7 + 5]:
        book.threads.add("garden", thread, Said(f"m{n}", n, "owner@example.com", f"text {n}"))
    said = book.threads.read("garden", thread)
    assert [s.message_id for s in said] == [f"m{n}" for n in range(5, KEPT_ENTRIES + 5)]
    assert book.threads.read("orchard", thread) == []  # another site hears nothing of it, whatever its mails refer to


def test_a_thread_of_long_mails_in_any_script_fits_into_its_row(book: Book) -> None:
    thread = uuid.uuid4().hex
    for n in range(KEPT_ENTRIES * 2):
        book.threads.add("garden", thread, Said(f"m{n}", n, "owner@example.com", "花" * 20_000))
    said = book.threads.read("garden", thread)
    assert said[-1].message_id == f"m{KEPT_ENTRIES * 2 - 1}"
    assert sum(len(s.text.encode()) for s in said) <= 300_000


def test_an_interruption_is_recorded(book: Book) -> None:
    project = f"garden-{uuid.uuid4().hex[:8]}"
    book.threads.interrupted(project, ["t1", "t2"], edit=f"edit:{project}:1", by="m2", reason="newer mail")
    [found] = book.threads.interruptions_of(project)
    assert (found["by"], found["threads"]) == ("m2", ["t1", "t2"])
