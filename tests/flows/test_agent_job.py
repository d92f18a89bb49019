"""Jobs on a real Prefect server and the real local AWS, carried out by processes that are killed."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterTags,
)

from flows.jobs import ask_for_step
from postroom.aws.names import Names
from postroom.ledger import Book, State
from postroom.settings import load
from postroom.tasks.definitions import Definitions
from postroom.tasks.job_book import Jobs
from postroom.tasks.job_plan import read_plan, read_steps, request_id
from postroom.tasks.job_state import Stands
from postroom.tasks.results import Results
from tests.flows.premises import deployed, kill, staff
from tests.workers.sensing import QUICK, until

SCHEMA = {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}


def task(task_id: str, *parents: str, **more: Any) -> dict[str, Any]:
    """A task that is answered from its example, and needs the answers of all its parents."""
    asks = " ".join(f"{{{{parents.{each}.word}}}}" for each in parents) or "begin"
    answer = {"outputSchema": SCHEMA, "example": {"word": f"word of {task_id}"}}
    return {"id": task_id, "prompt": asks, "dependsOn": list(parents), **answer, **more}


def diamond() -> list[dict[str, Any]]:
    """Twelve tasks, two roots. `d` builds on a definition that is not there: it fails, and `g`, `k` with it.

    a ─┬─ c ─┬─ f ── h ─┬─ j ─┬─ l
       ├─ e ─┘          │     │
       └─ d ── g ───────┼─────┴─ k      b ── i ─┘
    """
    broken = {"id": "d", "definition": "translate", "dependsOn": ["a"], "example": {"word": "word of d"}}
    return [
        task("a"),
        task("b"),
        task("c", "a"),
        broken,
        task("e", "a"),
        task("f", "c", "e"),
        task("g", "d"),
        task("h", "f"),
        task("i", "b"),
        task("j", "h", "i"),
        task("k", "g", "j"),
        task("l", "j"),
    ]


@pytest.fixture
def book(provisioned: Names) -> Book:
    return Book(load(prefix=provisioned.prefix, **QUICK))


@pytest.fixture
async def pool(prefect_server: str, provisioned: Names) -> AsyncIterator[str]:
    async with deployed("agent_job", "agent_task") as name:
        yield name


def seen(book: Book, job_id: str) -> dict[str, str]:
    jobs = Jobs(book)
    return {task: each.value for task, each in jobs.standing(jobs.read(job_id)).tasks.items()}


def told(book: Book, job_id: str) -> list[str]:
    return [event.event_type for event in book.events.of_entity(f"JOB#{job_id}")]


async def task_runs(job_id: str) -> Counter[str]:
    """How many runs each key of the job's tasks has in Prefect."""
    async with get_client() as client:
        tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[f"job:{job_id}", "job:task"]))
        runs = await client.read_flow_runs(flow_run_filter=tagged, limit=200)
    keys = [tag for run in runs for tag in run.tags if tag.startswith("key:task:")]
    return Counter(keys)


async def test_a_diamond_with_a_failing_branch_and_an_added_task_survives_a_restart_in_the_middle(
    book: Book, pool: str, tmp_path: Path
) -> None:
    jobs, job_id = Jobs(book), f"diamond-{uuid.uuid4().hex[:8]}"
    over = lambda: jobs.read(job_id).state.terminal  # noqa: E731
    with staff(pool, tmp_path) as pids:
        jobs.create(read_plan({"name": "A diamond", "tasks": diamond()}, job_id=job_id))
        await ask_for_step(book, job_id)
        await until(lambda: seen(book, job_id)["a"] == "completed", "the first root", 60)
        kill(pids)
    assert not over(), "the middle has passed unseen"
    assert jobs.standing(jobs.read(job_id)).those(Stands.WAITING), "nothing was left to do"
    jobs.add(job_id, read_steps([task("m", "f", "b")]))

    with staff(pool, tmp_path):
        await until(over, "the end of the job", 90)
        first = seen(book, job_id)
        assert first == {
            **dict.fromkeys("abcefhijlm", "completed"),
            "d": "failed",
            "g": "blocked",
            "k": "blocked",
        }
        assert jobs.read(job_id).state is State.FAILED
        assert told(book, job_id).count("Job Failure Detected") == 1
        assert jobs.read(job_id).reason == "failed: d"

        Definitions().put("translate", {"prompt": "Translate {{parents.a.word}}", "outputSchema": SCHEMA})
        assert jobs.resume(job_id)[1] == ["d"]
        await until(over, "the end after the fix", 60)
    assert jobs.read(job_id).state is State.DONE
    assert set(seen(book, job_id).values()) == {"completed"}
    events = told(book, job_id)
    assert [event for event in events if event != "Job Failure Detected"] == [
        "Job Created",
        "Job Tasks Added",
        "Job Completed",
        "Job Resumed",
        "Job Completed",
    ]
    for each in "abcdefghijklm":
        result = Results(request_id(job_id, each)).latest()
        assert result["output"] == {"word": f"word of {each}"}
        done = [e.event_type for e in book.events.of_entity(f"TASK#{request_id(job_id, each)}")]
        assert done.count("Task Completed") == 1, each
    runs = await task_runs(job_id)
    assert set(runs.values()) == {1}, "each task is one run in Prefect"
    assert len(runs) == 14, "thirteen tasks, one of them twice"
    assert "✓ k" in await drawn(job_id)


async def drawn(job_id: str) -> str:
    async with get_client() as client:
        like = ArtifactFilter(key=ArtifactFilterKey(like_=f"job-{job_id}%"))
        found = await client.read_artifacts(artifact_filter=like)
    return str(max(found, key=lambda artifact: artifact.updated).data)


async def test_a_job_whose_step_nobody_asked_for_is_moved_on_by_the_sensor(
    book: Book, pool: str, tmp_path: Path
) -> None:
    jobs, job_id = Jobs(book), f"alone-{uuid.uuid4().hex[:8]}"
    jobs.create(read_plan({"tasks": [task("a"), task("b", "a")]}, job_id=job_id))
    with staff(pool, tmp_path):
        await until(lambda: jobs.read(job_id).state is State.DONE, "the end of the job", 60)
    assert told(book, job_id) == ["Job Created", "Job Completed"]
