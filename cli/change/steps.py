"""`postroom change approve|reject|complete|cancel`: the steps of a change's life."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.change import telling
from cli.change.options import AsJson, By, ChangeId, DryRun, Wait, WaitSeconds
from postroom.changes.model import Status

Version = Annotated[
    int | None, typer.Option("--version", help="The version that is meant; refused when there is a newer one.")
]


def approve(
    change_id: ChangeId,
    version: Version = None,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Approve a submitted change, and have it announced."""
    _step(change_id, Status.APPROVED, version, by, wait, wait_seconds, dry_run, as_json)


def reject(
    change_id: ChangeId,
    version: Version = None,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Reject a submitted change; nobody is mailed."""
    _step(change_id, Status.REJECTED, version, by, wait, wait_seconds, dry_run, as_json)


def complete(
    change_id: ChangeId,
    version: Version = None,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Complete an approved change, and have that announced."""
    _step(change_id, Status.COMPLETED, version, by, wait, wait_seconds, dry_run, as_json)


def cancel(
    change_id: ChangeId,
    version: Version = None,
    by: By = None,
    wait: Wait = False,
    wait_seconds: WaitSeconds = 600,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a change that is not completed; who was told of it is told that it is off."""
    _step(change_id, Status.CANCELLED, version, by, wait, wait_seconds, dry_run, as_json)


def _step(
    change_id: str,
    to: Status,
    version: int | None,
    by: str | None,
    wait: bool,
    seconds: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    store = telling.store_for(dry_run)
    change = store.move(change_id, to, by=telling.person(by), version=version)
    telling.tell(store, change, wait=wait, seconds=seconds, as_json=as_json)
