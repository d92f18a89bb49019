"""Where a task stands, for people. Decisions are made by its row in the book alone."""

from __future__ import annotations

from typing import Any

from postroom.errors import Missing
from postroom.ledger import Row, State
from postroom.ledger.book import Book
from postroom.tasks.results import Results

ENDED = ("done", "failed", "refused", "cancelled", "timeout")
_MOST_REPLAYS = 50


def standing(book: Book, request_id: str) -> dict[str, Any]:
    """How far a task is; Missing when nobody has heard of it."""
    events = book.events.of_entity(f"TASK#{request_id}", latest=1)
    row = newest(book, request_id)
    if row is None and not events:
        raise Missing(f"the book has no task {request_id}")
    latest = {"type": events[-1].event_type, "at": events[-1].at} if events else None
    if row is None:  # known by its events only: it never got as far as the book
        said = events[-1].properties
        error = {"message": said.get("error") or said.get("reason"), "category": said.get("category")}
        return {"request_id": request_id, "status": "failed", "attempts": 0, "error": error, "latest": latest}
    found: dict[str, Any] = {
        "request_id": request_id,
        "status": _status(row),
        "attempts": row.attempts,
        "run": row.run_id,
        "usage": row.outcome.get("usage"),
        "latest": latest,
    }
    if row.state is State.DONE:
        found["result"] = Results(request_id).latest()
    elif row.reason:
        found["error"] = {"message": row.reason, "category": row.outcome.get("category")}
        if row.outcome.get("partial"):
            found["partial"] = row.outcome["partial"]
    return found


def newest(book: Book, request_id: str) -> Row | None:
    """The row of its newest attempt: it may have been done once more, or come back from the dead letters."""
    key = f"task:{request_id}"
    rows = book.leases.find_many([key, *(f"{key}:r{n}" for n in range(1, _MOST_REPLAYS))])
    return max(rows.values(), key=lambda row: row.entered_at, default=None)


def _status(row: Row) -> str:
    if row.state is State.FAILED and row.outcome.get("category") == "timeout":
        return "timeout"
    return row.state.value
