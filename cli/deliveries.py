"""`postroom deliveries`: who was told what, and another try for those who were not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import say, whereabouts
from postroom.errors import Missing, PostroomError

if TYPE_CHECKING:
    from postroom.changes.model import Change
    from postroom.delivery.notice import Notice
    from postroom.ledger.book import Book

app = typer.Typer(no_args_is_help=True)


@app.callback()
def deliveries() -> None:
    """Who was told what."""


@app.command()
def show(
    change_id: Annotated[str, typer.Argument(help="Id of the change.", show_default=False)],
    customer: Annotated[str | None, typer.Option(help="Only this customer.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Recipients, sent, failed and unknown of every notice of a change, with the reasons."""
    from postroom.delivery.report import COLUMNS, reports
    from postroom.ledger.book import open_book

    whereabouts.require()
    found = list(reports(open_book(), change_id, customer))
    if not found:
        of = f" of customer {customer}" if customer else ""
        raise Missing(f"nobody{of} was told of change {change_id}")
    if as_json:
        say.data([report.as_json() for report in found])
        return
    say.table(COLUMNS, [report.row() for report in found])
    if lost := [(r.customer, d["recipient"], d["state"], d["reason"]) for r in found for d in r.details]:
        say.text("")
        say.table(("customer", "recipient", "state", "reason"), lost)
    if more := sum(report.left_off for report in found):
        say.note(f"and {more} more; --json counts them by reason")


@app.command()
def resend(
    change_id: Annotated[str, typer.Argument(help="Id of the change.", show_default=False)],
    failed: Annotated[bool, typer.Option("--failed", help="Those whose delivery has failed.")] = False,
    customer: Annotated[str | None, typer.Option(help="Only this customer.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say who would be told; send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Try once more those whose delivery has failed, of the change as it now stands, and nobody else."""
    if not failed:
        raise typer.BadParameter("say whom: --failed. What is unknown is never sent again blindly.")
    from postroom.changes.store import open_store
    from postroom.delivery.notice import Notice
    from postroom.delivery.report import notices
    from postroom.delivery.send import failures
    from postroom.ledger.book import open_book
    from postroom.meetings.again import invitation

    whereabouts.require()
    book, change = open_book(), open_store().read(change_id)
    said: list[dict[str, Any]] = []
    code = 0
    for entry in notices(book, change_id):
        if customer is not None and entry["customer"] != customer:
            continue
        whose = _customer(entry["customer"])
        if (entry["version"], entry["status"]) == (change.version, change.status.value):
            notice: Notice | None = Notice.of(change.as_json(), whose, entry["topic"], entry["kind"])
        else:
            notice = invitation(change, whose, entry)
        if notice is None:
            continue  # nobody is told of what is no longer so
        people = [row.recipient for row in failures(book, notice)]
        found: dict[str, Any] = {"customer": whose.code, "notice": notice.status, "failed": people, "sent": 0}
        if people and not dry_run:
            try:
                asyncio.run(_again(book, change, notice))
            except PostroomError as error:  # one customer's trouble is no other's
                found["error"], code = str(error), max(code, error.exit_code)
            rows = book.deliveries.look(notice.batch, people).values()
            found["failed"] = sorted(row.recipient for row in rows if row.state == "failed")
            found |= {state: sum(row.state == state for row in rows) for state in ("sent", "unknown", "pending")}
            code = max(code, 0 if found["sent"] == len(people) else 69)
        said.append(found)
    if not said:
        raise Missing(f"nobody was told of change {change_id} as it now stands")
    if as_json:
        say.data(said)
    else:
        for each in said:
            to_go = "would be tried again" if dry_run else f"not sent, {each['sent']} sent"
            say.text(f"{each['customer']}, {each['notice']}: {len(each['failed'])} {to_go}")
            if "error" in each:
                say.note(each["error"])
    if code:
        say.note("Who is suppressed, unsubscribed or not allowed is not tried: postroom deliveries show says who.")
        raise typer.Exit(code)


@app.command()
def settle(
    change_id: Annotated[str, typer.Argument(help="Id of the change.", show_default=False)],
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS…", help="Whose delivery.", show_default=False)],
    sent: Annotated[bool | None, typer.Option("--sent/--not-sent", help="What became of it.")] = None,
    customer: Annotated[str | None, typer.Option(help="Only this customer.")] = None,
    notice: Annotated[str | None, typer.Option(help="Only this notice, as `show` names it: '1 submitted'.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be settled; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say what became of deliveries that are unknown. Sends nothing; `resend --failed` does, for what was not sent."""
    if sent is None:
        raise typer.BadParameter("say what you found: --sent or --not-sent")
    from postroom.delivery.unknown import unknown_of
    from postroom.ledger.book import open_book

    whereabouts.require()
    book = open_book()
    found = unknown_of(book, change_id, addresses, customer=customer, notice=notice)
    state = "sent" if sent else "failed"
    said = []
    for each in found:
        if not dry_run:
            state = book.deliveries.decide(each.batch, each.recipient, sent=sent).state
        said.append({"customer": each.customer, "notice": each.notice, "recipient": each.recipient, "state": state})
    if as_json:
        say.data(said)
    else:
        would = "would be " if dry_run else ""
        say.table(
            ("customer", "notice", "recipient", "state"),
            [(*list(each.values())[:3], would + each["state"]) for each in said],
        )
    if not sent and not dry_run:
        say.note(f"To send to them once more: postroom deliveries resend {change_id} --failed")


async def _again(book: Book, change: Change, notice: Notice) -> None:
    from postroom.delivery.send import resend_failed
    from postroom.meetings.again import invite_again

    if notice.kind == "meeting":
        await invite_again(book, change, notice)
    else:
        document = change.as_json()
        await resend_failed(book, change=document, customer=notice.customer, topic=notice.topic, kind=notice.kind)


def _customer(code: str) -> Any:
    from blocks.customer import find_customer

    whereabouts.require_prefect()
    found = asyncio.run(find_customer(code))
    if found is None:
        raise Missing(f"there is no customer {code} any more")
    return found
