"""`postroom change`: one file for what is written, one for the steps, one for looking."""

from __future__ import annotations

import typer

from cli.change import looking, steps, writing

app = typer.Typer(no_args_is_help=True)


@app.callback()
def change() -> None:
    """Changes and their notices."""


app.command("draft")(writing.draft)
app.command("submit")(writing.submit)
app.command("update")(writing.update)
app.command("approve")(steps.approve)
app.command("reject")(steps.reject)
app.command("complete")(steps.complete)
app.command("cancel")(steps.cancel)
app.command("show")(looking.show)
app.command("versions")(looking.versions)
app.command("diff")(looking.diff)
app.command("preview")(looking.preview)
