"""`postroom customers load|list|check`: whose people are told of changes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import say, whereabouts
from postroom.errors import BadInput

if TYPE_CHECKING:
    from postroom.changes.differences import Difference
    from postroom.delivery.customer import Customer

app = typer.Typer(no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
AT_ONCE = 8


@app.callback()
def customers() -> None:
    """Customer configuration."""


@app.command()
def load(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The customer configuration, as JSON.")],
    prune: Annotated[
        bool, typer.Option("--prune", help="Also remove customers that the file does not name, with their queues.")
    ] = False,
    contacts: Annotated[
        Path | None,
        typer.Option(help="Sample contacts for the local AWS; else contacts.json beside FILE, when it is there."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the customers what the file says: blocks, queues, notifications. Shows what differs; safe to repeat."""
    from blocks.customer import all_customers
    from deployments import local_accounts
    from postroom.changes.customers import changed, read_customers

    wanted = read_customers(_read(file))
    samples = _samples(file, contacts, local_accounts)
    whereabouts.require()
    whereabouts.require_prefect()
    before = asyncio.run(all_customers())
    gone = sorted(set(before) - set(wanted))
    differs = {code: changed(before.get(code), wanted.get(code)) for code in (*wanted, *(gone if prune else ()))}
    asyncio.run(_blocks(wanted, {code for code, found in differs.items() if found}, gone if prune else [], dry_run))
    steps = _queues(list(wanted), gone if prune else [], dry_run)
    if samples is not None:
        steps += local_accounts.furnish(wanted.values(), samples, dry_run=dry_run)
    _tell(differs, before, steps, as_json)
    if gone and not prune:
        say.note(f"Not in the file, and left alone: {', '.join(gone)}. --prune removes them.")
    new, mended = sum(code not in before for code in wanted), sum(bool(differs[code]) for code in wanted)
    say.note(f"{len(wanted)} customers: {new} new, {mended - new} changed{' (nothing was done)' if dry_run else ''}.")


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the customers."""
    from blocks.customer import all_customers
    from postroom.changes.customers import entry_of

    whereabouts.require_prefect()
    found = asyncio.run(all_customers())
    if as_json:
        say.data([{"code": code, **entry_of(each), "account": each.account} for code, each in found.items()])
        return
    say.table(
        ("code", "name", "account", "region", "sender", "time zone"),
        ((c.code, c.name, c.account, c.region, c.sender, c.timezone) for c in found.values()),
    )


@app.command()
def check(
    code: Annotated[str | None, typer.Argument(help="One customer; else all.")] = None, as_json: AsJson = False
) -> None:
    """Assume each customer's role and look for its sending identity and contact list; nothing is sent."""
    from blocks.customer import all_customers
    from postroom.changes.checkup import check as look

    whereabouts.require()
    whereabouts.require_prefect()
    known = asyncio.run(all_customers())
    if code is not None and code not in known:
        raise BadInput(f"there is no customer {code}")
    chosen = [known[code]] if code else list(known.values())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        findings = [each for found in pool.map(look, chosen) for each in found]
    if as_json:
        say.data([each.as_json() for each in findings])
    else:
        say.table(
            ("customer", "", "check", "found"),
            ((each.customer, "good" if each.good else "BAD", each.what, each.said) for each in findings),
        )
    if bad := {each.customer for each in findings if not each.good}:
        say.note(f"{len(bad)} of {len(chosen)} customers need mending: {', '.join(sorted(bad))}")
        raise typer.Exit(69)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file} can't be read: {error.strerror}") from None


def _samples(file: Path, contacts: Path | None, local_accounts: Any) -> dict[str, Any] | None:
    """Sample contacts by customer, on the local AWS; None in AWS, where the accounts are not ours to furnish."""
    if not local_accounts.is_local():
        if contacts is not None:
            raise BadInput("--contacts is for the local AWS only: in AWS the contact lists are the customers' own")
        return None
    beside = contacts or file.with_name("contacts.json")
    if contacts is None and not beside.exists():
        return {}
    found: dict[str, Any] = local_accounts.read_contacts(_read(beside))
    return found


async def _blocks(wanted: dict[str, Customer], differing: set[str], gone: list[str], dry_run: bool) -> None:
    from blocks.customer import remove_customer, save_customer

    if dry_run:
        return
    for code, customer in wanted.items():
        if code in differing:
            await save_customer(customer)
    for code in gone:
        await remove_customer(code)


def _queues(codes: list[str], gone: list[str], dry_run: bool) -> list[Any]:
    from postroom.aws import provision

    steps: list[Any] = []
    for code in codes:
        steps += provision.provision_customer(code, dry_run=dry_run)
    for code in gone:
        steps += provision.remove_customer(code, dry_run=dry_run)
    return steps


def _tell(differs: dict[str, list[Difference]], before: dict[str, Customer], steps: list[Any], as_json: bool) -> None:
    done = [step.as_json() for step in steps if step.action != "unchanged"]
    if as_json:
        found = {code: [each.as_json() for each in changes] for code, changes in differs.items() if changes}
        say.data({"customers": list(differs), "differences": found, "steps": done})
        return
    rows = [
        (code, each.field, each.before, each.after)
        for code, changes in differs.items()
        if code in before
        for each in changes
    ]
    rows += [(code, "", "", "new") for code, changes in differs.items() if code not in before and changes]
    if rows:
        say.table(("customer", "field", "before", "after"), rows)
    if done:
        say.table(("", "kind", "name"), ((each["action"], each["kind"], each["name"]) for each in done))
