"""Deliveries of which nobody knows whether they were sent, looked up for the person who does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from postroom.delivery.report import notices
from postroom.errors import BadInput, Missing
from postroom.ledger import Book


@dataclass(frozen=True)
class Unknown:
    """One such delivery."""

    batch: str
    recipient: str
    customer: str
    notice: str  # as the report names it: version and status


def unknown_of(
    book: Book, change_id: str, addresses: Iterable[str], *, customer: str | None = None, notice: str | None = None
) -> list[Unknown]:
    """The unknown delivery of each address; an error names those that have none, or more than one."""
    found: dict[str, dict[str, Unknown]] = {address.strip().lower(): {} for address in addresses}
    for entry in notices(book, change_id):
        named = f"{entry['version']} {entry['status']}"
        if customer not in (None, entry["customer"]) or notice not in (None, named):
            continue
        batch = entry["deliveries"]
        for row in book.deliveries.look(batch, list(found)).values():
            if row.abandoned(book.clock.now_ms()):
                row = book.deliveries.give_up(row)
            code = str(row.detail.get("customer", entry["customer"]))
            if row.state == "unknown" and customer in (None, code):
                found[row.recipient][batch] = Unknown(batch, row.recipient, code, named)
    if none := sorted(address for address, each in found.items() if not each):
        raise Missing(f"of change {change_id} no delivery is unknown to {', '.join(none)}")
    if many := sorted(address for address, each in found.items() if len(each) > 1):
        several = sorted({each.notice for address in many for each in found[address].values()})
        raise BadInput(
            f"more than one delivery is unknown to {', '.join(many)}; say which, by --notice or --customer: "
            f"{', '.join(several)}"
        )
    return [each for by_batch in found.values() for each in by_batch.values()]
