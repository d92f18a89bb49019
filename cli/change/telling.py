"""What became of a change, in the words of the command line."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Mapping
from typing import Any

import typer

from cli import say, whereabouts
from postroom.changes.model import Change
from postroom.changes.shelf import Rehearsal
from postroom.changes.standing import ENDED, ended, standing
from postroom.changes.store import ChangeStore, open_store
from postroom.delivery.customer import Customer
from postroom.errors import TimedOut, exit_code_of
from postroom.ledger.book import open_book

LOOK_SECONDS = 0.3


def customers() -> dict[str, Customer]:
    """All customers, as Prefect's blocks know them."""
    from blocks.customer import all_customers

    whereabouts.require_prefect()
    return asyncio.run(all_customers())


def store_for(dry_run: bool, known: Mapping[str, Customer] | None = None) -> ChangeStore:
    whereabouts.require()
    return open_store(known=None if known is None else set(known), rehearse=dry_run)


def person(told: str | None, document: Mapping[str, Any] | None = None) -> str:
    written = (document or {}).get("modifiedBy") or (document or {}).get("createdBy")
    return told or (str(written) if written else getpass.getuser())


def tell(store: ChangeStore, change: Change | Mapping[str, Any], *, wait: bool, seconds: float, as_json: bool) -> None:
    """Print what was done; with `wait`, what came of it. The exit code says whether all were told."""
    if isinstance(store.shelf, Rehearsal):
        say.note("It is right. Nothing was written; it would have been: " + ", ".join(store.shelf.would))
    if not isinstance(change, Change):  # a draft: nobody hears of it
        found = {name: change.get(name) for name in ("changeId", "version", "status")}
        say.data({**found, "customers": {}}) if as_json else say.text(str(found["changeId"]))
        return
    if isinstance(store.shelf, Rehearsal):
        found = {"changeId": change.change_id, "version": change.version, "status": change.status.value}
        say.data({**found, "customers": {code: {"status": "waiting"} for code in change.codes}}) if as_json else None
        return
    if wait:
        follow(store, change, seconds)
    found = standing(open_book(), store.read(change.change_id) if wait else change)
    if as_json:
        say.data(found)
    elif wait:
        table(found)
    else:
        say.text(change.change_id)
    if wait:
        conclude(found, seconds)


def follow(store: ChangeStore, change: Change, seconds: float) -> None:
    """Returns when nothing more happens by itself, a newer step has overtaken this one, or the time is over."""
    deadline, book = time.monotonic() + seconds, open_book()
    while time.monotonic() < deadline:
        found = standing(book, store.read(change.change_id), counted=False)
        if ended(found) or (found["version"], found["status"]) != (change.version, change.status.value):
            return
        time.sleep(LOOK_SECONDS)


def conclude(found: Mapping[str, Any], seconds: float) -> None:
    """Exits with what the worst of the customers' failures stands for; TimedOut when some have no end yet."""
    customers = found["customers"]
    if not ended(found):
        waiting = [code for code, each in customers.items() if each["status"] not in ENDED]
        raise TimedOut(
            f"{len(waiting)} of {len(customers)} customers have no end after {seconds:.0f} s: "
            f"{', '.join(waiting[:10])}. To look again: postroom change show {found['changeId']}"
        )
    if bad := [each for each in customers.values() if each["status"] != "done"]:
        raise typer.Exit(max(exit_code_of(str(each.get("category", ""))) for each in bad))


def table(found: Mapping[str, Any]) -> None:
    columns = ("status", "recipients", "sent", "failed", "unknown", "reason")
    say.text(f"{found['changeId']}, version {found['version']}: {found['status']}")
    say.table(
        ("customer", *columns),
        ((code, *(each.get(name, "") for name in columns)) for code, each in found["customers"].items()),
    )
