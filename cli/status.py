"""`postroom status`: what runs where, and what waits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from cli import say, whereabouts
from postroom.errors import PostroomError, Unavailable, classify
from workers.premises import Premises, addresses, ports_of

app = typer.Typer(add_completion=False)


@app.command()
def status(ctx: typer.Context, json: bool = typer.Option(False, "--json", help="One JSON document.")) -> None:
    """Say what runs where, and what waits."""
    premises = Premises(whereabouts.data_directory(ctx.find_root().obj))
    if not premises.is_running():
        raise Unavailable(f"no post room runs on {premises.data}; start it with `postroom up`")
    found = gather(premises)
    if json:
        say.data(found)
        return
    say.table(["part", "state", "process", "restarts", "since"], [_row(each) for each in found["processes"]])
    say.text("")
    queues = found["queues"] or {}
    say.table(
        ["queue", "waiting", "in flight", "dead"],
        [(name, count["waiting"], count["in_flight"], count["dead"]) for name, count in queues.items()],
    )
    for title in ("prefect", "aws", "outbox", "data"):
        say.note(f"{title:<8} {found[title]}")


def gather(premises: Premises) -> dict[str, Any]:
    """The post room as one document; queues are null when the local AWS does not answer."""
    state = premises.state()
    return {
        **addresses(ports_of(state)),
        "ready": state.get("ready", False),
        "data": str(premises.data),
        "processes": state.get("processes", []),
        "queues": queues(),
    }


def queues() -> dict[str, dict[str, int]] | None:
    """Messages per queue: waiting, in flight, and in its dead letters."""
    from postroom.aws.counts import queue_counts
    from postroom.settings import settings

    try:
        return {name: asdict(count) for name, count in queue_counts(settings().prefix).items()}
    except Exception as error:
        known: PostroomError = classify(error)
        if known.exit_code == 70:
            raise
        say.problem(f"the local AWS does not answer: {known}")
        return None


def _row(process: dict[str, Any]) -> tuple[Any, ...]:
    return process["name"], process["state"], process["pid"], process["restarts"], process["since"]
