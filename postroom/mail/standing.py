"""Where a mail stands: what the book knows of it, from its arrival to the answer."""

from __future__ import annotations

from typing import Any

from postroom.aws.clients import client
from postroom.errors import Missing
from postroom.ledger import Row, State
from postroom.ledger.book import Book
from postroom.ledger.instructions import Instruction
from postroom.media.bucket import BucketShelf
from postroom.media.result import MediaResult
from postroom.media.store import MediaStore
from postroom.settings import settings

ENDED = ("done", "refused", "failed", "cancelled")
_MOST_REPLAYS = 50
_BEFORE_THE_BOOK = {State.REFUSED: "refused", State.FAILED: "failed", State.CANCELLED: "cancelled"}


def standing(book: Book, message_id: str) -> dict[str, Any]:
    """The outcome of a mail so far, its newest attempt; Missing when the book has no such mail."""
    row = newest(book, message_id)
    if row is None:
        raise Missing(f"the book has no mail {message_id}")
    found: dict[str, Any] = {
        "message_id": message_id,
        "thread_id": row.outcome.get("thread_id"),
        "project": row.outcome.get("project"),
        "user": row.outcome.get("user"),
        "status": _BEFORE_THE_BOOK.get(row.state, "received"),
        "pages": [],
        "absorbed": [],
        "attachments": [],
        "reply": "none",
        "runs": [],
        "timings": {},
    }
    if row.run_id:
        found["runs"].append({"id": row.run_id, "flow": "email-to-site"})
    if (instruction := _entered(book, row)) is not None:  # then that tells, also when the mail's own run failed later
        _add_instruction(book, found, row, instruction)
        return found
    if row.reason and row.terminal:
        found["reason"] = row.reason
    if row.state in (State.REFUSED, State.FAILED):
        batch = f"mail:{message_id}" if row.state is State.REFUSED else f"mail:{message_id}:failed"
        answer = next(book.deliveries.of_batch(batch), None)
        found["reply"] = answer.state if answer and answer.state in ("sent", "unknown") else "none"
    return found


def newest(book: Book, message_id: str, *, besides: str = "") -> Row | None:
    """The row of the mail's newest attempt: it may have been replayed, or come back from the dead letters."""
    key = f"email:{message_id}"
    rows = book.leases.find_many([key, *(f"{key}:r{n}" for n in range(1, _MOST_REPLAYS))])
    return max((row for row in rows.values() if row.key != besides), key=lambda row: row.entered_at, default=None)


def entered_before(book: Book, message_id: str, key: str) -> Instruction | None:
    """What the attempt before `key` put into the book before it failed; None when that is to be done once more."""
    before = newest(book, message_id, besides=key)
    if before is None or before.state is not State.FAILED:
        return None  # the first, or forced
    found = _entered(book, before)
    return found if found is not None and found.status not in ("failed", "cancelled") else None


def _entered(book: Book, row: Row) -> Instruction | None:
    """The instruction that an attempt put into the book."""
    project, known_as = row.outcome.get("project"), row.outcome.get("instruction")
    return book.instructions.find(str(project), str(known_as)) if project and known_as else None


def _linked(instruction: Instruction, bucket: str) -> list[dict[str, Any]]:
    """The attachments with fresh links to their files."""
    results = [MediaResult.model_validate(attachment) for attachment in instruction.attachments]
    if not bucket:
        return [result.as_json() for result in results]
    store = MediaStore(BucketShelf(client("s3"), bucket))
    return [store.links(result, hours=settings().presigned_hours).as_json() for result in results]


def _add_instruction(book: Book, found: dict[str, Any], row: Row, instruction: Instruction) -> None:
    outcome = instruction.outcome
    found["status"] = instruction.status
    found["attachments"] = _linked(instruction, str(row.outcome.get("media_bucket") or ""))
    found["left_out"] = list(instruction.left_out)
    for name in ("commit", "edit_url", "absorbed_by"):
        if outcome.get(name):
            found[name] = outcome[name]
    found["pages"] = list(outcome.get("pages") or ())
    found["absorbed"] = list(outcome.get("absorbed") or ())
    found["reply"] = outcome.get("reply", "none")
    if instruction.reason:
        found["reason"] = instruction.reason
    found["timings"] = {"received": instruction.received_at, "in_the_book": row.ended_at, "ended": instruction.ended_at}
    edit = book.leases.find(instruction.edit) if instruction.edit else None
    if edit is not None and edit.run_id:
        found["edit_run"] = edit.run_id
        found["runs"].append({"id": edit.run_id, "flow": "edit-site"})
