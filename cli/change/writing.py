"""`postroom change draft|submit|update`: what people write."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.change import telling
from cli.change.options import AsJson, By, DryRun, Wait, WaitSeconds
from postroom.changes.model import CHANGE_ID, Change
from postroom.changes.store import ChangeStore
from postroom.delivery.customer import Customer
from postroom.errors import BadInput, Missing, Unparsable

File = Annotated[str, typer.Argument(metavar="FILE|-", help="The change as JSON; - reads standard input.")]
FileOrId = Annotated[
    str, typer.Argument(metavar="FILE|-|ID", help="The change as JSON, - for standard input, or the id of a draft.")
]
SHOWN = ("customers", "versions")  # what `change show --json` adds to a change


def draft(
    file: File,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep a working copy, which may be incomplete; nobody hears of it, so --wait has nothing to wait for.

    Prints its id.
    """
    document = read(file)
    known = telling.customers()
    store = telling.store_for(dry_run, known)
    kept = store.draft(document, by=telling.person(by, document))
    telling.tell(store, kept, wait=wait, seconds=wait_seconds, as_json=as_json)


def submit(
    file: FileOrId,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Archive a change and have every customer it names told. Prints its id.

    The id of a change that is submitted already writes the triggers it lacks, and nothing else.
    """
    known = telling.customers()
    store = telling.store_for(dry_run, known)
    if (change := None if file == "-" or Path(file).exists() else _by_id(store, file, known, by)) is None:
        document = _named(read(file), known)
        change = store.submit(document, by=telling.person(by, document))
    telling.tell(store, change, wait=wait, seconds=wait_seconds, as_json=as_json)


def update(
    file: File,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Edit a change: a new version, submitted for approval again. The file names its changeId."""
    known = telling.customers()
    document = _named(read(file), known)
    store = telling.store_for(dry_run, known)
    change = store.update(document, by=telling.person(by, document))
    telling.tell(store, change, wait=wait, seconds=wait_seconds, as_json=as_json)


def read(file: str) -> dict[str, Any]:
    """The JSON object in a file; BadInput that says what is wrong with it."""
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file} can't be read: {error.strerror}") from None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unparsable(f"{file} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadInput(f"{file} holds no JSON object but {type(document).__name__}")
    return {name: value for name, value in document.items() if name not in SHOWN}


def _named(document: dict[str, Any], known: Mapping[str, Customer]) -> dict[str, Any]:
    """The document with the names of its customers, unless it says them itself."""
    facts = document.get("changeMetadata")
    codes = facts.get("customerCodes") if isinstance(facts, dict) else None
    if not isinstance(facts, dict) or facts.get("customerNames") or not isinstance(codes, list):
        return document
    if not all(isinstance(code, str) and code in known for code in codes):
        return document  # the store names the strangers
    return {**document, "changeMetadata": {**facts, "customerNames": [known[code].name for code in codes]}}


def _by_id(store: ChangeStore, change_id: str, known: Mapping[str, Customer], by: str | None) -> Change | None:
    """The draft of that id, submitted; a submitted change, with the triggers it lacks; None when there is neither."""
    try:
        draft = store.read_draft(change_id)
        return store.submit_again(change_id)
    except BadInput:
        if not CHANGE_ID.fullmatch(change_id):
            return None  # not an id either: the file is what is missing
        raise
    except Missing:
        if draft is None:
            return None
    document = _named(draft, known)
    return store.submit(document, by=telling.person(by, document))
