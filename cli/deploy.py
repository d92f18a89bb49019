"""`postroom deploy`: Prefect made to look as this checkout says, as often as one likes."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli import say, whereabouts

app = typer.Typer(add_completion=False)


@app.command()
def deploy(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The steps as one JSON array.")] = False,
) -> None:
    """Create and mend Prefect pools, limits, blocks, automations and deployments."""
    whereabouts.require_prefect()
    from deployments.deploy import deploy as write

    steps = asyncio.run(write(dry_run=dry_run))
    if json:
        say.data([step.as_json() for step in steps])
    else:
        done = {"create": "created", "update": "mended", "unchanged": "as it should be"}
        say.table(
            ("", "kind", "name", "differs in"),
            (
                (step.action if dry_run else done[step.action], step.kind, step.name, ", ".join(step.differences))
                for step in steps
            ),
        )
    changed = sum(step.action != "unchanged" for step in steps)
    say.note(f"{changed} of {len(steps)} {'would be' if dry_run else 'were'} created or mended.")
