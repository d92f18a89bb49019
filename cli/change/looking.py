"""`postroom change show|versions|diff|preview`: looking, and changing nothing."""

from __future__ import annotations

import asyncio
import tempfile
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import say, whereabouts
from cli.change import telling
from cli.change.options import AsJson, ChangeId
from postroom.changes.notices import decide, was_told
from postroom.changes.standing import standing
from postroom.errors import BadInput, Missing
from postroom.ledger.book import open_book


def show(
    change_id: ChangeId,
    version: Annotated[int | None, typer.Option("--version", help="An older version.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a change is, and where it stands with each customer."""
    store = telling.store_for(False)
    try:
        change = store.read_version(change_id, version) if version else store.read(change_id)
    except Missing:
        draft = None if version else store.read_draft(change_id)
        if draft is None:
            raise
        say.data(draft)
        return
    if version:
        say.data(change.as_json())
        return
    found = standing(open_book(), change)
    if as_json:
        listed = [asdict(each) for each in store.versions(change_id)]
        say.data({**change.as_json(), "customers": found["customers"], "versions": listed})
        return
    facts = change.change_metadata
    say.table(
        ("", ""),
        [
            ("title", facts.title),
            ("from", facts.schedule.start.isoformat(timespec="minutes")),
            ("to", facts.schedule.end.isoformat(timespec="minutes")),
            ("zone", facts.schedule.timezone),
            ("modified", f"{change.modified_at.isoformat()} by {change.modified_by}"),
        ],
    )
    telling.table(found)


def versions(change_id: ChangeId, as_json: AsJson = False) -> None:
    """List the versions of a change, oldest first."""
    listed = telling.store_for(False).versions(change_id)
    if as_json:
        say.data([asdict(each) for each in listed])
    else:
        say.table(("version", "at", "by"), ((each.version, each.at, each.by) for each in listed))


def diff(
    change_id: ChangeId,
    before: Annotated[int | None, typer.Argument(help="A version; else the one before the newest.")] = None,
    after: Annotated[int | None, typer.Argument(help="A later one; else the newest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what differs between two versions, field by field."""
    store = telling.store_for(False)
    newest = store.read(change_id).version
    after = after or newest
    found = store.compare(change_id, before or max(1, after - 1), after)
    if as_json:
        say.data([each.as_json() for each in found])
    else:
        say.table(("field", "before", "after"), ((each.field, each.before, each.after) for each in found))


def preview(
    change_id: ChangeId,
    customer: Annotated[str, typer.Option("--customer", help="The code of the customer.")],
    kind: Annotated[str | None, typer.Option("--kind", help="Another kind of letter than its status asks for.")] = None,
    show_it: Annotated[bool, typer.Option("--open", help="Open the HTML part in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the mail that people of a customer get of a change."""
    from postroom.delivery.writing import preview as letter

    document, natural = _document(change_id, customer)
    whom = _customer(customer)
    subject, text, html = letter(document, whom, kind or natural)
    if show_it:
        with tempfile.NamedTemporaryFile("w", suffix=".html", delete=False, encoding="utf-8") as page:
            page.write(html)
        say.note(f"The HTML part is in {page.name}")
        webbrowser.open(Path(page.name).as_uri())
    if as_json:
        say.data({"customer": customer, "from": whom.sender, "subject": subject, "text": text, "html": html})
    else:
        say.text(f"From: {whom.sender}\nSubject: {subject}\n\n{text}")


def _document(change_id: str, code: str) -> tuple[dict[str, Any], str | None]:
    """The change, or its draft, and the kind of letter that this customer would get."""
    store = telling.store_for(False)
    try:
        change = store.read(change_id)
    except Missing:
        draft = store.read_draft(change_id)
        if draft is None:
            raise
        return draft, None
    if code not in change.codes:
        raise BadInput(f"change {change_id} does not name the customer {code}")
    what = decide(change, told=was_told(change, code))
    return change.as_json(), what.kind if what else None


def _customer(code: str) -> Any:
    from blocks.customer import find_customer

    whereabouts.require_prefect()
    found = asyncio.run(find_customer(code))
    if found is None:
        raise BadInput(f"there is no customer {code}")
    return found
