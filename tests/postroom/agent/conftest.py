"""What the agent's tests speak of: a workspace, the endpoint, and the processes of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from postroom.agent.job import Endpoint, Instruction, Job
from tests.fixtures.model import Model

SUMMARY = {
    "type": "object",
    "properties": {"summary": {"type": "string", "maxLength": 40}},
    "required": ["summary"],
    "additionalProperties": False,
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small site."""
    site = tmp_path / "site"
    (site / "src/pages").mkdir(parents=True)
    (site / "src/pages/index.astro").write_text("<h1>Old title</h1>\n")
    (site / "package.json").write_text('{"name": "site"}\n')
    (site / "astro.config.mjs").write_text("export default {};\n")
    return site


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="postroom-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def job(model: Model, workspace: Path) -> Callable[..., Job]:
    """A job for the claude driver that calls the scripted endpoint."""

    def make(prompt: str = "Change the title.", **more: Any) -> Job:
        endpoint = Endpoint(model.url, SecretStr(model.key))
        chosen = {"workspace": workspace, "endpoint": endpoint, "seconds": 30.0, "retries": 1, "system": "You edit."}
        return Job(prompt, **{**chosen, **more})

    return make


@pytest.fixture
def letter() -> Callable[..., Instruction]:
    def make(subject: str = "Summer hours", text: str = "We open at nine.", **more: Any) -> Instruction:
        chosen = {"message_id": "one", "sender": "owner@example.com", "received": datetime(2026, 7, 1, 9, tzinfo=UTC)}
        return Instruction(subject=subject, text=text, **{**chosen, **more})

    return make


_others: set[int] = set()


@pytest.fixture(autouse=True)
def _only_agents() -> None:
    """The servers of other tests in this session are no agents."""
    _others.clear()
    _others.update(one.pid for one in psutil.Process().children(recursive=True))


def agents() -> list[psutil.Process]:
    """Every process below this one that could be an agent's: sandboxes, children, CLIs."""
    below = psutil.Process().children(recursive=True)
    return [one for one in below if one.pid not in _others and one.is_running() and not _dead(one)]


def _dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
