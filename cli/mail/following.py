"""`postroom mail show` and `mail replay`: where a mail stands, and doing it once more."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from cli import say
from postroom.errors import BadInput, Missing, TimedOut

if TYPE_CHECKING:
    from postroom.ledger.book import Book

EXIT = {"done": 0, "refused": 65, "failed": 70, "cancelled": 70}


def show(
    message_id: Annotated[str, typer.Argument(help="The message_id that `mail send` printed.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say where a mail stands."""
    tell(with_states(look(message_id)), as_json)


def replay(
    message_id: Annotated[str, typer.Argument(help="A mail that came in before.")],
    force: Annotated[bool, typer.Option("--force", help="Carry it out once more though it is finished.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Run a stored mail again; a finished one reports its outcome, unless forced."""
    from postroom.ledger.book import open_book
    from postroom.mail.standing import ENDED, newest

    book = open_book()
    row = newest(book, message_id)
    stands = look(message_id) if row is not None else None
    if stands is not None and not (force and stands["status"] in ENDED):
        if force:
            raise BadInput(f"{message_id} is not finished yet: it is {stands['status']}")
        tell(with_states(stands), as_json)
        return
    if dry_run:
        say.note(f"{message_id} would be carried out once more.")
        return
    suffix = _next_suffix(book, row.key) if row is not None else None
    send_again(message_id, suffix)
    say.note(f"{message_id} is on its way once more.")


def _next_suffix(book: Book, key: str) -> str:
    """`r{n}` after the newest attempt's (the dead letters count on their own)."""
    base, _, last = key.partition(":r")
    while True:
        suffix = book.leases.replay(base).rpartition(":")[2]
        if int(suffix.removeprefix("r")) > int(last or 0):
            return suffix


def look(message_id: str) -> dict[str, Any]:
    from postroom.ledger.book import open_book
    from postroom.mail.standing import standing

    return standing(open_book(), message_id)


def wait(message_id: str, seconds: float) -> dict[str, Any]:
    """Where the mail stands when it has come to its end."""
    from postroom.mail.standing import ENDED

    deadline = time.monotonic() + seconds
    while True:
        try:
            found = look(message_id)
        except Missing:
            found = {"status": "not seen yet"}
        if found["status"] in ENDED:
            return with_states(found)
        if time.monotonic() > deadline:
            raise TimedOut(
                f"{message_id} has not ended after {seconds:.0f} s; it is: {found['status']}. "
                f"To look again: postroom mail show {message_id}"
            )
        time.sleep(0.3)


def with_states(found: dict[str, Any]) -> dict[str, Any]:
    """The same with what Prefect says of its runs."""
    return {**found, "runs": asyncio.run(_states(found["runs"]))}


async def _states(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from prefect.client.orchestration import get_client

    told = []
    async with get_client() as client:
        for run in runs:
            try:
                state = (await client.read_flow_run(UUID(run["id"]))).state
                told.append({**run, "state": state.name if state else None})
            except Exception as error:
                told.append({**run, "state": None, "error": type(error).__name__})
    return told


def tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say.data(found)
        return
    shown = {name: value for name, value in found.items() if value not in (None, [], {})}
    shown["runs"] = ", ".join(f"{run['flow']} {run['state']}" for run in found["runs"])
    shown["attachments"] = len(found["attachments"])
    say.table(("", ""), [(name, value) for name, value in shown.items() if name != "timings"])


def send_again(message_id: str, suffix: str | None) -> None:
    """Put the stored mail's notification onto the queue again."""
    from postroom.aws.clients import client, region
    from postroom.aws.names import Names
    from postroom.settings import settings

    names = Names(settings().prefix)
    bucket, key = names.mail_bucket, f"incoming/{message_id}"
    try:
        client("s3").head_object(Bucket=bucket, Key=key)
    except Exception:
        raise Missing(f"the mail {message_id} is not in the bucket any more") from None
    record = {
        "eventSource": "aws:s3",
        "awsRegion": region(),
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": bucket}, "object": {"key": key}},
    }
    sqs = client("sqs")
    sqs.send_message(
        QueueUrl=sqs.get_queue_url(QueueName=names.mail_queue)["QueueUrl"],
        MessageBody=json.dumps({"Records": [record]}),
        MessageAttributes={"replay": {"DataType": "String", "StringValue": suffix}} if suffix else {},
    )
