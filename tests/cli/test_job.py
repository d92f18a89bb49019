"""`postroom job` and `postroom dead-letters`, as a person calls them."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import dead_letters, job
from postroom.aws.names import Names
from postroom.errors import BadInput, Missing, PostroomError
from postroom.ledger import State
from postroom.ledger.book import new_holder, open_book
from postroom.tasks.job_book import Jobs
from tests.postroom.test_dead_letters import bury
from tests.workers.sensing import deployments

TASK = {"prompt": "say a word", "example": {"word": "x"}}
RUNNER = CliRunner()


@pytest.fixture
async def house(prefect_server: str, provisioned: Names) -> AsyncIterator[Names]:
    async with deployments("agent-job", "agent-task"):
        yield provisioned


def call(app: Any, *words: str, text: str | None = None) -> Any:
    """What the verb prints as JSON; raises the error that would end it."""
    done = RUNNER.invoke(app, [*words], input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout) if done.stdout.strip().startswith(("{", "[")) else done.stdout


def handed_in(**more: Any) -> str:
    return json.dumps({"jobId": f"j-{uuid.uuid4().hex[:8]}", "tasks": [{"id": "a", **TASK}], **more})


def end(key: str, state: State) -> None:
    leases = open_book().leases
    leases.enter(key, "task", None)
    leases.finish(leases.start(key, "task", new_holder()).lease, state, reason="torn")


async def test_a_job_is_handed_in_from_standard_input_shown_and_listed(house: Names) -> None:
    job_id = json.loads(text := handed_in(name="Words"))["jobId"]
    told = await in_thread(job.app, "submit", "-", "--json", text=text)
    assert (told["job_id"], told["status"], told["name"]) == (job_id, "running", "Words")
    again = await in_thread(job.app, "submit", "-", "--json", text=text)
    assert again["tasks"] == told["tasks"]
    listed = await in_thread(job.app, "list", "--json")
    assert [each["job_id"] for each in listed] == [job_id]
    assert "a" in await in_thread(job.app, "show", job_id)


async def test_tasks_are_added_and_a_failed_job_is_resumed(house: Names, tmp_path: Path) -> None:
    text = handed_in()
    told = await in_thread(job.app, "submit", "-", "--json", text=text)
    job_id = told["job_id"]
    more = tmp_path / "more.json"
    more.write_text(json.dumps([{"id": "b", "dependsOn": ["a"], **TASK}]))
    assert (await in_thread(job.app, "add", job_id, str(more), "--dry-run", "--json"))["tasks"] == ["a", "b"]
    assert len(Jobs(open_book()).read(job_id).plan.steps) == 1, "a dry run changes nothing"
    told = await in_thread(job.app, "add", job_id, str(more), "--json")
    assert [each["status"] for each in told["tasks"]] == ["ready", "waiting"]
    end(told["tasks"][0]["key"], State.FAILED)
    jobs = Jobs(open_book())
    assert jobs.finish(jobs.read(job_id), jobs.standing(jobs.read(job_id)))
    told = await in_thread(job.app, "show", job_id, "--json")
    assert (told["status"], told["tasks"][0]["reason"], told["tasks"][1]["status"]) == ("failed", "torn", "blocked")
    assert (await in_thread(job.app, "resume", job_id, "--dry-run", "--json"))["tasks"] == ["a"]
    assert jobs.read(job_id).state is State.FAILED
    told = await in_thread(job.app, "resume", job_id, "--json")
    assert (told["status"], told["resumed"]) == ("running", 1)
    assert told["tasks"][0]["key"].endswith(":r1")


async def in_thread(app: Any, *words: str, text: str | None = None) -> Any:
    return await asyncio.to_thread(call, app, *words, text=text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "standard input is no JSON"),
        ("[]", "JSON object"),
        (json.dumps({"tasks": [{"id": "a", "dependsOn": ["a"], **TASK}]}), "a → a is a cycle"),
        (json.dumps({"tasks": [{"id": "a", "prompt": "x", "maxTurns": 0}]}), "task 'a'.*maxTurns"),
        (json.dumps({"tasks": [{"id": "a", "prompt": "{{input.gone}}"}]}), "task 'a'.*input.gone"),
        (json.dumps({"tasks": [{"id": "a", "definition": "nowhere"}]}), "task 'a'.*definition 'nowhere'"),
        (json.dumps({"tasks": [{"id": "a", "surprise": 1, **TASK}]}), "task 'a'.*surprise"),
        (json.dumps({"tasks": [{"id": "a", "prompt": "x\0y"}]}), "NUL"),
        (json.dumps({"tasks": [{"id": "a", "prompt": "x", "input": {"half": "\ud83d"}}]}), "surrogate"),
        (json.dumps({"tasks": [{"id": "a", "prompt": "x", "input": {"n": float("nan")}}]}), "number that JSON"),
    ],
)
def test_a_job_that_can_not_be_is_refused_before_it_is_entered(provisioned: Names, text: str, said: str) -> None:
    with pytest.raises(BadInput, match=f"(?s){said}") as refused:
        call(job.app, "submit", "-", text=text)
    assert refused.value.exit_code == 65
    assert list(Jobs(open_book()).open()) == []


def test_an_unknown_job_and_an_unreadable_file_are_said_plainly(provisioned: Names) -> None:
    for words in (["show", "nowhere"], ["submit", "/nowhere/job.json"]):
        with pytest.raises(Missing):
            call(job.app, *words)


def test_dead_letters_are_listed_shown_dismissed_and_redriven(provisioned: Names) -> None:
    queue = provisioned.tasks_queue
    one = bury(queue, '{"requestId": "a1"}', reason="torn", key="task:a1", receives="3", requestId="a1")
    two = bury(queue, "rubbish", reason="no JSON")
    listed = {each["id"]: each for each in call(dead_letters.app, "list", "--json")}
    assert listed.keys() == {one, two}
    assert (listed[one]["reason"], listed[one]["receives"], listed[one]["entity"]) == ("torn", 3, "TASK#a1")
    shown = call(dead_letters.app, "show", one, "--json")
    assert (shown["status"], shown["body"]) == ("listed", '{"requestId": "a1"}')
    assert [event["event_type"] for event in shown["events"]] == ["Task Failed"]

    told = call(dead_letters.app, "redrive", one, "--dry-run", "--json")
    assert (told["key"], told["redriven"]) == ("task:a1:r1", False)
    call(dead_letters.app, "dismiss", two, "--dry-run")
    assert len(call(dead_letters.app, "list", "--json")) == 2, "a dry run changes nothing"

    assert call(dead_letters.app, "redrive", one, "--json")["redriven"]
    call(dead_letters.app, "dismiss", two)
    assert call(dead_letters.app, "list", "--json") == []
    with refused("dismissed already"):
        call(dead_letters.app, "dismiss", two)
    with refused("no dead letter 'nowhere'"):
        call(dead_letters.app, "show", "nowhere")


@contextmanager
def refused(said: str) -> Iterator[None]:
    with pytest.raises(PostroomError, match=said) as error:
        yield
    assert error.value.exit_code == 65
