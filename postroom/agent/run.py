"""One way to have work done by an agent, whichever driver does it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal, Protocol

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from postroom.agent.confine import FILE_TOOLS, TODO_TOOLS
from postroom.agent.job import Job, OnLine, OnProgress, Result
from postroom.errors import BadInput, Missing
from postroom.settings import settings

Driver = Literal["claude", "literal"]
_SCHEMA_BYTES = 100_000  # the CLI takes it as one argument; the kernel allows 128 KiB


class _Run(Protocol):
    async def __call__(
        self, job: Job, *, on_line: OnLine | None, on_progress: OnProgress | None, stop: asyncio.Event | None
    ) -> Result: ...


async def run(
    job: Job,
    *,
    on_line: OnLine | None = None,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
    driver: Driver | None = None,
) -> Result:
    """The agent's result. Raises only for a job that cannot be started, and when cancelled (nothing is left behind).

    Whether it succeeded is the result's `outcome`; `result.or_raise()` turns anything but `done` into its error.
    Set `stop` to interrupt the agent and still get its result.
    """
    check(job)
    return await _driver(driver or settings().agent)(job, on_line=on_line, on_progress=on_progress, stop=stop)


def check(job: Job) -> None:
    """Raises BadInput naming what is wrong with the job."""
    if not job.prompt.strip():
        raise BadInput("the prompt is empty")
    if unknown := [tool for tool in job.tools if tool not in (*FILE_TOOLS, *TODO_TOOLS)]:
        raise BadInput(f"tools {unknown} are not available; an agent may have {list(FILE_TOOLS)}")
    if job.tools and job.workspace is None:
        raise BadInput(f"tools {list(job.tools)} need a workspace")
    if job.workspace is not None and not job.workspace.is_dir():
        raise Missing(f"the workspace {job.workspace.name!r} is not a directory")
    if job.max_turns < 1 or job.seconds <= 0 or job.idle_seconds <= 0 or job.memory_mb < 1:
        raise BadInput("turns, seconds, idle seconds and memory must be positive")
    if job.schema is not None:
        _check_schema(dict(job.schema))


def _check_schema(schema: dict[str, Any]) -> None:
    if len(json.dumps(schema)) > _SCHEMA_BYTES:
        raise BadInput(f"the output schema is larger than {_SCHEMA_BYTES} bytes")
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path) or "the schema"
        raise BadInput(f"the output schema is not valid: {where}: {error.message[:300]}") from None


def _driver(name: Driver) -> _Run:
    if name == "claude":
        from postroom.agent.claude import run_claude

        return run_claude
    from postroom.agent.literal import run_literal

    return run_literal
