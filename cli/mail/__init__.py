"""`postroom mail`: one file for each verb."""

from __future__ import annotations

import typer

from cli.mail import following, outbox, reading, sending

app = typer.Typer(no_args_is_help=True)


@app.callback()
def mail() -> None:
    """Parse, send, follow and replay mail."""


app.command("parse")(reading.parse_files)
app.command("send")(sending.send)
app.command("outbox")(outbox.outbox)
app.command("show")(following.show)
app.command("replay")(following.replay)
