"""`postroom dead-letters`: what could not be done, kept until someone decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import say, whereabouts
from postroom.errors import BadInput

if TYPE_CHECKING:
    from postroom.dead_letters.letter import DeadLetter
    from postroom.dead_letters.register import Register

app = typer.Typer(no_args_is_help=True)

LetterId = Annotated[str, typer.Argument(metavar="ID", help="Id of a dead letter, as `dead-letters list` shows it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]


@app.callback()
def dead_letters() -> None:
    """What could not be done, kept until someone decides."""


@app.command("list")
def list_(json: Json = False) -> None:
    """Letters that wait for a decision, oldest first. The queues are looked through now."""
    found = register(gather=True).listed()
    if json:
        say.data([letter.as_json() for letter in found])
        return
    for each in found:  # not a table: an id must be whole to be of use
        say.text(f"{each.id}  {each.as_json()['at']}  {each.queue}  {each.entity}, received {each.receives} times")
        say.text(f"    {' '.join(each.reason.split())}")


@app.command()
def show(letter_id: LetterId, json: Json = False) -> None:
    """A letter, whole, with its history."""
    from postroom.ledger.book import open_book

    letter, state = read(letter_id)
    events = [event.as_json() for event in open_book().events.of_entity(letter.entity)]
    told = {
        **letter.as_json(),
        "status": state,
        "body": letter.body,
        "attributes": {name: value.get("StringValue", "(binary)") for name, value in letter.attributes.items()},
        "events": events,
    }
    if json:
        say.data(told)
        return
    shown = {**told, "events": ", ".join(event["event_type"] for event in events)}
    say.table(("", ""), [(name, value) for name, value in shown.items() if value not in (None, {}, "")])


@app.command()
def redrive(letter_id: LetterId, dry_run: DryRun = False, json: Json = False) -> None:
    """Send a letter to its queue once more: a new attempt at the same work."""
    letter, state = read(letter_id)
    again = letter.next_key()
    if state != "listed":
        raise BadInput(f"the dead letter {letter_id} is {state} already")
    if dry_run:
        say.note(f"{letter.entity} would be sent to {letter.queue} once more.")
    else:
        register().redrive(letter_id)
        say.note(f"{letter.entity} is on its way once more.")
    _answer(
        {"id": letter_id, "queue": letter.queue, "entity": letter.entity, "key": again, "redriven": not dry_run}, json
    )


@app.command()
def dismiss(letter_id: LetterId, dry_run: DryRun = False, json: Json = False) -> None:
    """Take a letter off the list; the event table keeps what it was."""
    letter, state = read(letter_id)
    if state != "listed":
        raise BadInput(f"the dead letter {letter_id} is {state} already")
    if dry_run:
        say.note(f"{letter.entity} would be dismissed.")
    else:
        register().dismiss(letter_id)
        say.note(f"{letter.entity} is dismissed.")
    _answer({"id": letter_id, "queue": letter.queue, "entity": letter.entity, "dismissed": not dry_run}, json)


def register(*, gather: bool = False) -> Register:
    from postroom.dead_letters.register import Register
    from postroom.ledger.book import open_book

    whereabouts.require()
    found = Register(open_book())
    if gather:
        found.gather()
    return found


def read(letter_id: str) -> tuple[DeadLetter, str]:
    """The letter; one that died a moment ago is looked for in the queues."""
    from postroom.errors import Missing

    try:
        return register().read(letter_id)
    except Missing:
        return register(gather=True).read(letter_id)


def _answer(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say.data(told)
