"""`postroom task definitions`: what tasks may build on, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import say, whereabouts
from cli.task.reading import json_object

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Prompts, schemas and limits under a name.")
Name = Annotated[str, typer.Argument(help="Name of the definition.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check; change nothing.")]


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List what there is."""
    from postroom.tasks.definitions import Definitions

    whereabouts.require()
    shelf = Definitions()
    found = [(name, shelf.read(name)) for name in shelf.names()]
    if as_json:
        say.data([{"name": name, **each.as_json()} for name, each in found])
        return
    say.table(
        ("name", "description", "turns", "seconds"),
        [(name, each.description, each.max_turns, each.timeout_seconds) for name, each in found],
    )


@app.command("show")
def show(name: Name, as_json: AsJson = False) -> None:
    """Print one."""
    from postroom.tasks.definitions import Definitions

    whereabouts.require()
    say.data({"name": name, **Definitions().read(name).as_json()})


@app.command("put")
def put(
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The definition as JSON; - for standard input.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Store one under its name; one that is there is replaced."""
    from postroom.tasks.definitions import Definitions

    told = json_object(file)
    whereabouts.require()
    new = Definitions().put(name, told, dry_run=dry_run)
    say.note(f"{name} {'would be ' if dry_run else 'is '}{'new' if new else 'replaced'}.")
    if as_json:
        say.data({"name": name, "new": new, "stored": not dry_run})


@app.command("delete")
def delete(name: Name, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Remove one; tasks that name it fail from then on."""
    from postroom.tasks.definitions import Definitions

    whereabouts.require()
    Definitions().delete(name, dry_run=dry_run)
    say.note(f"{name} {'would be' if dry_run else 'is'} gone.")
    if as_json:
        say.data({"name": name, "deleted": not dry_run})
