"""`postroom provision`: AWS made to look as postroom/aws/layout.py says, as often as one likes."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import say
from postroom.aws import provision
from postroom.aws.resource import Step

app = typer.Typer(add_completion=False)


@app.command()
def provision_all(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The steps as one JSON array.")] = False,
) -> None:
    """Create and mend the queues, buckets, tables and bus of this post room."""
    steps = provision.plan() if dry_run else provision.apply()
    if json:
        say.data([step.as_json() for step in steps])
    else:
        say.table(("", "kind", "name", "differs in"), (_row(step, dry_run) for step in steps))
    changed = sum(step.action != "unchanged" for step in steps)
    say.note(f"{changed} of {len(steps)} {'would be' if dry_run else 'were'} created or mended.")


def _row(step: Step, dry_run: bool) -> tuple[str, str, str, str]:
    done = {"create": "created", "update": "mended", "unchanged": "as it should be"}
    return (step.action if dry_run else done[step.action], step.kind, step.name, ", ".join(step.differences))
