"""`postroom task`: agent tasks and their definitions."""

from __future__ import annotations

import typer

from cli.task import definitions, following, submitting

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def task() -> None:
    """Agent tasks and their definitions."""


app.command("submit")(submitting.submit)
app.command("show")(following.show)
app.command("events")(following.events)
app.add_typer(definitions.app, name="definitions")
