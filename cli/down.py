"""`postroom down`: stops the post room that runs on a data directory, and waits until it is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import typer

from cli import say, whereabouts
from postroom.errors import TimedOut
from workers.premises import Premises

app = typer.Typer(add_completion=False)
SECONDS = 90.0


@app.command()
def down(
    ctx: typer.Context,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only say what would be stopped."),
) -> None:
    """Stop the post room and wait until its last process has ended."""
    premises = Premises(whereabouts.data_directory(ctx.find_root().obj))
    if not premises.is_running():
        say.note(f"No post room runs on {premises.data}.")
        return
    pid = premises.state().get("pid")
    if dry_run:
        say.note(f"Would stop the post room on {premises.data} (process {pid}).")
        return
    deadline = time.monotonic() + SECONDS
    while premises.is_running():
        if time.monotonic() > deadline:
            raise TimedOut(f"the post room on {premises.data} (process {pid}) still runs after {SECONDS:.0f} s")
        if (now := premises.state().get("pid")) and now != pid:
            pid = now
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            pid = None  # once is enough
        time.sleep(0.1)
    say.note(f"The post room on {premises.data} is closed.")
