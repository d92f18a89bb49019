"""A job that cannot be started says why before anything starts; a callback that fails is not swallowed."""

import asyncio

import pytest

from postroom.agent.run import run
from postroom.errors import PostroomError
from tests.fixtures.model import say
from tests.postroom.agent.conftest import agents


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"prompt": "  "}, "prompt is empty"),
        ({"tools": ("Bash",)}, "Bash"),
        ({"workspace": None}, "need a workspace"),
        ({"max_turns": 0}, "turns"),
        ({"seconds": 0}, "seconds"),
        ({"schema": {"type": "nonsense"}}, "schema is not valid: type"),
        ({"schema": {"type": "object", "description": "x" * 200_000}}, "larger than"),
    ],
)
async def test_a_wrong_job_is_named(job, wrong, named):
    with pytest.raises(PostroomError, match=named) as refused:
        await run(job(**wrong), driver="claude")
    assert refused.value.category == "validation"


async def test_a_workspace_that_is_not_there_is_missing(job, tmp_path):
    with pytest.raises(PostroomError, match="not a directory") as refused:
        await run(job(workspace=tmp_path / "gone"), driver="claude")
    assert refused.value.category == "not-found"


async def test_a_callback_that_fails_ends_the_run_and_is_heard(job, model):
    model.script(say("At it.", stall=60))

    def fail(_line: str) -> None:
        raise KeyError("the log is gone")

    with pytest.raises(KeyError, match="the log is gone"):
        await asyncio.wait_for(run(job(), driver="claude", on_line=fail), 20)
    assert not agents()
