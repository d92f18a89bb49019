"""A post room in which tasks run: the book, a Prefect server with the limit, and an agent that the test scripts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.exceptions import ObjectNotFound

from flows.agent_task import LIMIT, agent_task
from postroom.aws.names import Names
from postroom.ledger import Row
from postroom.ledger.book import Book, open_book
from postroom.settings import settings
from postroom.tasks.results import Results
from tests.fixtures.model import Model

SUMMARY = {
    "type": "object",
    "properties": {"summary": {"type": "string", "maxLength": 40}},
    "required": ["summary"],
    "additionalProperties": False,
}


async def make_limit(places: int = 50, *, name: str = LIMIT) -> None:
    async with get_client() as client:
        try:
            await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=places))


class Room:
    """One request, sent to the flow as often as a test likes."""

    def __init__(self, book: Book, request_id: str) -> None:
        self.book, self.request_id = book, request_id
        self.results = Results(request_id)

    async def run(self, **task: Any) -> Any:
        """The state in which the run ended."""
        told = {"name": "shorten", "prompt": "Shorten {{input.text}}", "input": {"text": "a long letter"}, **task}
        return await agent_task(self.request_id, told, return_state=True)

    @property
    def row(self) -> Row:
        return self.book.leases.read(f"task:{self.request_id}")

    def due_now(self) -> None:
        """The sweeper would ask for it again later; the test does not wait."""
        row = self.row
        assert not row.terminal
        self.book.dynamodb.update_item(
            TableName=self.book.names.leases,
            Key={"key": {"S": row.key}},
            UpdateExpression="SET effective_until = :zero",
            ExpressionAttributeValues={":zero": {"N": "0"}},
        )

    def events(self, *, beats: bool = False) -> list[str]:
        found = self.book.events.of_entity(f"TASK#{self.request_id}")
        return [e.event_type.removeprefix("Task ") for e in found if beats or e.event_type != "Task Heartbeat"]

    def said(self, what: str) -> dict[str, Any]:
        found = self.book.events.of_entity(f"TASK#{self.request_id}")
        return dict(next(e for e in reversed(found) if e.event_type == f"Task {what}").properties)

    def text(self, name: str) -> str:
        s3, bucket = self.results._drawer._s3, self.book.names.tasks_bucket
        return s3.get_object(Bucket=bucket, Key=f"task/logs/{self.request_id}/{name}")["Body"].read().decode()


@pytest.fixture
async def room(
    provisioned: Names, prefect_server: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Room:
    for name, value in {
        "DATA": str(tmp_path / "data"),
        "AGENT": "claude",
        "AGENT_URL": model.url,
        "AGENT_TOKEN": model.key,
        "PROMISE_SECONDS": "20",
    }.items():
        monkeypatch.setenv(f"POSTROOM_{name}", value)
    settings.cache_clear()
    await make_limit()
    return Room(open_book(), f"t-{uuid.uuid4().hex[:12]}")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No process of an agent outlives its test."""
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    yield
    left = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    agents = [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE and _is_agent(one)]
    assert not agents


def _is_agent(process: psutil.Process) -> bool:
    try:
        return any(word in " ".join(process.cmdline()) for word in ("postroom.agent.child", "claude", "bwrap"))
    except psutil.NoSuchProcess:
        return False
