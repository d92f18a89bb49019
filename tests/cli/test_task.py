"""`postroom task`, as a person calls it."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import task
from postroom.aws.names import Names
from postroom.errors import AuthFailed, BadInput, OurFault, OutOfTime, PostroomError
from postroom.ledger import Granted
from postroom.ledger.book import new_holder, open_book
from postroom.tasks.storable import MOST_BYTES
from tests.workers.sensing import left_in

PLAIN = {"name": "sum", "prompt": "Add.", "example": "two"}
RUNNER = CliRunner()


def call(*words: str, text: str | None = None) -> Any:
    """What the verb prints as JSON; raises the error that would end it."""
    done = RUNNER.invoke(task.app, [*words], input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadInput("no such placeholder"), 65),
        (AuthFailed("a wrong key"), 69),
        (OutOfTime("it took too long"), 70),
        (OurFault("a slip"), 70),
    ],
)
def test_waiting_for_a_task_ends_with_the_code_of_its_error(
    provisioned: Names, error: PostroomError, code: int
) -> None:
    leases = open_book().leases
    started = leases.start("task:ended", "task", new_holder())
    assert isinstance(started, Granted)
    leases.fail(started.lease, error)
    text = json.dumps({**PLAIN, "requestId": "ended"})
    assert RUNNER.invoke(task.app, ["submit", "-", "--wait", "--json"], input=text).exit_code == code


def test_definitions_are_put_and_deleted_with_json(provisioned: Names) -> None:
    text = json.dumps({"prompt": "Greet."})
    assert call("definitions", "put", "greet", "-", "--dry-run", "--json", text=text)["stored"] is False
    assert call("definitions", "put", "greet", "-", "--json", text=text) == {
        "name": "greet",
        "new": True,
        "stored": True,
    }
    assert call("definitions", "delete", "greet", "--json") == {"name": "greet", "deleted": True}


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": "a\0b"}, "NUL"),
        ({"text": "\ud83d"}, "surrogate"),
        ({"number": float("nan")}, "number that JSON does not know"),
        ({"deep": deep(70)}, "nested deeper"),
    ],
)
def test_a_task_that_the_sensor_could_not_read_is_refused_before_it_is_sent(
    provisioned: Names, given: dict[str, Any], said: str
) -> None:
    refusal(provisioned, json.dumps({**PLAIN, "input": given}), said)


def test_a_task_that_grows_too_large_when_it_is_written_anew_is_refused(provisioned: Names) -> None:
    numbers = ",".join(["1e9"] * 50_000)  # 1000000000.0
    text = json.dumps({**PLAIN, "input": {"numbers": []}}).replace("[]", f"[{numbers}]")
    assert len(text) < MOST_BYTES
    refusal(provisioned, text, "bytes; a message may have")


def refusal(names: Names, text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        call("submit", "-", "--wait", "--wait-seconds", "1", text=text)
    assert refused.value.exit_code == 65
    assert left_in(names.tasks_queue) == (0, 0)


def test_a_task_as_large_as_a_message_may_be_is_sent_as_small_as_it_came(provisioned: Names) -> None:
    text = json.dumps({**PLAIN, "input": {"numbers": [1] * 130_000}}, separators=(",", ":"))
    assert MOST_BYTES - 3000 < len(text) < MOST_BYTES
    assert call("submit", "-", "--json", text=text)["sent"]
    assert left_in(provisioned.tasks_queue) == (1, 0)
