"""Where a change stands with each of its customers, as the book and the archive know it."""

from __future__ import annotations

from typing import Any

from postroom.changes.model import Change, Modification
from postroom.changes.notices import notice_key
from postroom.delivery.report import reports
from postroom.ledger import Row, State
from postroom.ledger.book import Book

ENDED = ("done", "failed", "cancelled")
COUNTS = ("recipients", "sent", "failed", "unknown", "pending")
_WORDS = {State.WAITING: "waiting", State.WORKING: "sending", State.DONE: "done", State.FAILED: "failed"}


def standing(book: Book, change: Change, *, counted: bool = True) -> dict[str, Any]:
    """The change's present version and status, and what came of it for each customer, counted from the book.

    Without `counted` there are no numbers: cheap enough to ask again and again.
    """
    recorded = {each.key: each for each in change.modifications}
    notices = book.leases.find_many([notice_key(change, code) for code in change.codes])
    runs = _runs(book, change)
    customers = {}
    for code in change.codes:
        key = notice_key(change, code)
        customers[code] = _of_customer(recorded.get(key), notices.get(key), runs.get(code))
    if counted:
        for report in reports(book, change.change_id, of=(change.version, change.status.value)):
            if report.customer in customers:
                customers[report.customer] |= {name: getattr(report, name) for name in COUNTS}
    return {
        "changeId": change.change_id,
        "version": change.version,
        "status": change.status.value,
        "customers": customers,
    }


def _of_customer(recorded: Modification | None, notice: Row | None, run: Row | None) -> dict[str, Any]:
    found: dict[str, Any] = {"status": "waiting", **dict.fromkeys(COUNTS, 0), "run": None}
    if notice is not None:
        found["run"] = notice.run_id
        found["status"] = _WORDS.get(notice.state, notice.state.value)
    if run is not None and run.run_id and found["run"] is None:
        found["run"] = run.run_id
    outcome = dict(notice.outcome) if notice is not None else {}
    if recorded is not None:
        outcome, found["status"] = dict(recorded.detail or {}), "done"
    elif found["status"] == "done":
        found["status"] = "recording"  # told, but the archive does not say so yet
    if found["status"] not in ENDED and run is not None and run.terminal and run.state is not State.DONE:
        # its run has ended without a word in the archive
        found["status"] = "cancelled" if run.state is State.CANCELLED else "failed"
    reason = outcome.get("error") or (notice.reason if notice else None) or (run.reason if run else None)
    if found["status"] != "done" and reason:
        found["reason"] = reason
    if found["status"] == "failed":
        found["category"] = str(
            outcome.get("category") or (run.outcome if run else {}).get("category") or "programming"
        )
    return found


def _runs(book: Book, change: Change) -> dict[str, Row]:
    """The newest row of each customer's triggers since the change took its present status."""
    since = int(change.modified_at.timestamp() * 1000)
    keys: dict[str, str] = {}
    for event in book.events.of_entity(f"CHANGE#{change.change_id}"):
        code, sequencer = event.properties.get("customer"), event.properties.get("sequencer")
        if event.event_type == "Change Received" and code and sequencer and event.at_ms >= since:
            keys[str(code)] = f"change:{change.change_id}:{code}:{sequencer}"
    rows = book.leases.find_many(list(keys.values()))
    return {code: rows[key] for code, key in keys.items() if key in rows}


def ended(found: dict[str, Any]) -> bool:
    """Whether nothing more will happen by itself."""
    return all(each["status"] in ENDED for each in found["customers"].values())
