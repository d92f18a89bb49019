"""`postroom task show` and `task events`: how far a task is, and what happened."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from cli import say, whereabouts
from postroom.errors import Missing, TimedOut, exit_code_of

EXIT = {"done": 0, "timeout": 70, "refused": 65, "cancelled": 70}  # what failed says why


def show(
    request_id: Annotated[str, typer.Argument(help="The request_id that `task submit` printed.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Say how far a task is, with its result."""
    tell(look(request_id), as_json)


def events(
    request_id: Annotated[str, typer.Argument(help="The request_id that `task submit` printed.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Print what happened to a task, oldest first."""
    from postroom.ledger.book import open_book

    whereabouts.require()
    found = [event.as_json() for event in open_book().events.of_entity(f"TASK#{request_id}")]
    if not found:
        raise Missing(f"there are no events of a task {request_id}")
    if as_json:
        say.data(found)
        return
    rows = [(one["at"], one["event_type"], _words(one["properties"])) for one in found]
    say.table(("at", "event", "properties"), rows)


def look(request_id: str) -> dict[str, Any]:
    from postroom.ledger.book import open_book
    from postroom.tasks.standing import standing

    whereabouts.require()
    return standing(open_book(), request_id)


def wait(request_id: str, seconds: float) -> dict[str, Any]:
    """How the task stands when it has ended."""
    from postroom.tasks.standing import ENDED

    deadline = time.monotonic() + seconds
    while True:
        try:
            found = look(request_id)
        except Missing:
            found = {"status": "not seen yet"}
        if found["status"] in ENDED:
            return found
        if time.monotonic() > deadline:
            raise TimedOut(
                f"{request_id} has not ended after {seconds:.0f} s; it is: {found['status']}. "
                f"To look again: postroom task show {request_id}"
            )
        time.sleep(0.3)


def exit_code(found: dict[str, Any]) -> int:
    """What the command ends with when the task has ended so."""
    if found["status"] in EXIT:
        return EXIT[found["status"]]
    return exit_code_of((found.get("error") or {}).get("category"))


def tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say.data(found)
        return
    shown = {name: value for name, value in found.items() if value not in (None, [], {}) and name != "result"}
    for name in ("error", "latest", "usage"):
        if name in shown:
            shown[name] = _words(shown[name])
    say.table(("", ""), [(name, _printable(str(value))) for name, value in shown.items()])
    if result := found.get("result"):
        answer = result["text"] if result["output"] is None else json.dumps(result["output"], indent=2)
        say.text("\n" + _printable(answer))
        if result.get("note"):
            say.note(result["note"])


def _words(value: Any) -> str:
    pairs = value.items() if isinstance(value, dict) else ()
    return _printable(", ".join(f"{name}: {inner}" for name, inner in pairs if inner not in (None, "")))


def _printable(text: str) -> str:
    return "".join(c for c in text if c in "\n\t" or c.isprintable())
