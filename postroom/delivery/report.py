"""Who was told: per change and customer, with plain reasons for what was not delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from postroom.delivery.notice import Notice
from postroom.ledger import Book
from postroom.ledger.clock import iso
from postroom.ledger.deliveries import Delivery
from postroom.ledger.dynamo import query, wire

MOST_DETAILS = 1000
COLUMNS = ("notice", "customer", "recipients", "sent", "failed", "unknown", "pending", "last (UTC)")


@dataclass
class Report:
    """What became of one notice for one customer. recipients = sent + failed + unknown + pending."""

    change_id: str
    version: int
    status: str
    customer: str
    account: str
    recipients: int = 0
    sent: int = 0
    failed: int = 0
    unknown: int = 0
    pending: int = 0
    shared: int = 0  # people of this customer who were told through another code of the same account
    outside: int = 0  # on the list, but not among those whom the customer allows
    reasons: dict[str, int] = field(default_factory=dict)  # how many of each plain reason
    first: str | None = None  # when the first and the last delivery ended
    last: str | None = None
    details: list[dict[str, Any]] = field(default_factory=list)  # what was not sent, one entry each
    left_off: int = 0  # such entries beyond the first thousand

    def add(self, delivery: Delivery) -> None:
        """Counts one delivery."""
        if delivery.detail.get("customer", self.customer) != self.customer:
            self.shared += 1
            return
        state = "pending" if delivery.state == "sending" else delivery.state
        self.recipients += 1
        setattr(self, state, getattr(self, state) + 1)
        at = iso(delivery.at)
        if state != "pending":
            self.first, self.last = min(self.first or at, at), max(self.last or at, at)
        if state == "sent":
            return
        reason = delivery.reason or ("being sent" if delivery.state == "sending" else "not tried yet")
        short = reason.partition(":")[0].partition(" (")[0].partition(";")[0]
        self.reasons[short] = self.reasons.get(short, 0) + 1
        if len(self.details) >= MOST_DETAILS:
            self.left_off += 1
        else:
            self.details.append({"recipient": delivery.recipient, "state": state, "reason": reason, "at": at})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def row(self) -> list[Any]:
        """Its line in a table."""
        counts = [getattr(self, name) for name in COLUMNS[1:-1]]
        return [f"{self.version} {self.status}", *counts, (self.last or "")[:19].replace("T", " ")]


def report_of(book: Book, notice: Notice, *, seen: Callable[[Delivery], Delivery] | None = None) -> Report:
    """The report of one notice, counted from the book; `seen` may settle a delivery before it is counted."""
    account, code = notice.customer.account, notice.customer.code
    report = Report(notice.change_id, notice.version, notice.status, code, account)
    for delivery in book.deliveries.of_batch(notice.batch):
        report.add(seen(delivery) if seen else delivery)
    return report


def reports(
    book: Book, change_id: str, customer: str | None = None, *, of: tuple[int, str] | None = None
) -> Iterator[Report]:
    """The reports of all notices of a change, or of one version and status, in the order in which they were made."""
    for entry in notices(book, change_id):
        if customer in (None, entry["customer"]) and of in (None, (entry["version"], entry["status"])):
            report = Report(change_id, entry["version"], entry["status"], entry["customer"], entry["account"])
            report.outside = entry.get("outside", 0)
            for delivery in book.deliveries.of_batch(entry["deliveries"]):
                report.add(delivery)
            yield report


def notices(book: Book, change_id: str) -> list[dict[str, Any]]:
    """What was told of a change, to which customers: one entry per version, status and customer."""
    found: Iterable[dict[str, Any]] = query(
        book.dynamodb,
        TableName=book.deliveries.table,
        KeyConditionExpression="#batch = :b",
        ExpressionAttributeNames={"#batch": "batch"},
        ExpressionAttributeValues={":b": wire(f"change:{change_id}")},
        ConsistentRead=True,
    )
    return list(found)


def enter(book: Book, notice: Notice) -> None:
    """Lists the notice on its change's shelf, so that its deliveries can be found by the change alone."""
    customer = notice.customer
    book.deliveries.note(
        notice.shelf,
        notice.entry,
        version=notice.version,
        status=notice.status,
        customer=customer.code,
        account=customer.account,
        topic=notice.topic,
        kind=notice.kind,
        deliveries=notice.batch,
        begun=book.clock.now_ms(),
    )


def unanswered(book: Book, notice: Notice) -> int:
    """How many mails of the notice in a row had no clear answer when it was last put off for that."""
    key = {"batch": wire(notice.shelf), "recipient": wire(notice.entry)}
    found = book.dynamodb.get_item(TableName=book.deliveries.table, Key=key, ConsistentRead=True).get("Item", {})
    return int(found.get("unanswered", {}).get("N", 0))


def note_unanswered(book: Book, notice: Notice, mails: int) -> None:
    book.deliveries.note(notice.shelf, notice.entry, unanswered=mails)
