"""The `claude` driver: the real agent, in a sandboxed child process with nothing but what it needs.

run ──spawn──▶ sandbox ▷ child (private home, environment from scratch) ──▶ CLI ──tunnel──▶ gate ──▶ the model
 │ events ◀── stdout          "interrupt" / end of input ──▶ stdin
 └ timeout, silence, memory, stop: interrupt → 2 s → SIGTERM → 5 s → SIGKILL, to the whole family
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import postroom
from postroom.agent.answer import as_object
from postroom.agent.attend import DISK_MB, Attended
from postroom.agent.confine import PROTECTED
from postroom.agent.gate import Gate, gate
from postroom.agent.job import Endpoint, Job, OnLine, OnProgress, Result
from postroom.errors import Misconfigured
from postroom.settings import settings
from postroom.sites.sandbox import Cell, Limits, prepare

_LINE = 64 * 1024 * 1024
_CODE, _PACKAGES, _HOME = "/run/agent/code", "/run/agent/packages", "/tmp/agent"  # noqa: S108 - the sandbox's own
_START = "import sys; sys.path += sys.argv[1:]; from postroom.agent.child import main; sys.exit(main())"
# The CLI reserves far more address space than it uses; what it really uses is watched from outside.
_RESERVED_MB = 16 * 1024


async def run_claude(
    job: Job,
    *,
    on_line: OnLine | None = None,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
) -> Result:
    """The agent's result, whatever became of it; only cancellation and bad jobs raise."""
    endpoint = job.endpoint or Endpoint(settings().agent_url, settings().agent_token)
    with _place(job) as place:
        async with gate(endpoint) as door, prepare(place.cell(job, door)) as ready:
            if not place.sealed:
                owner = place.workspace.stat()  # whoever the sandbox made the workspace's owner
                os.chown(place.home, owner.st_uid, owner.st_gid)
            process = await asyncio.create_subprocess_exec(
                *(*ready.argv, str(Path(sys.executable).resolve()), "-I", "-S", "-c", _START, *place.imports),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=ready.env,
                cwd="/",
                start_new_session=True,
                limit=_LINE,
            )
            attended = Attended(job, process, door, on_line=on_line, on_progress=on_progress, stop=stop)
            try:
                return await attended.to_the_end(_order(job, place.home, ready.at))
            finally:
                await attended.leave_nothing()


@dataclass(frozen=True)
class _Place:
    """Where things are for the child: its private directory and our code, as it sees them."""

    sealed: bool  # a mount namespace of its own
    workspace: Path
    home: str
    imports: tuple[str, str]

    def cell(self, job: Job, door: Gate) -> Cell:
        shown: dict[str, Path] = {}
        if self.sealed:
            shown = {f"{_CODE}/postroom": Path(postroom.__file__).parent, _PACKAGES: _packages()}
            shown |= _kept_as_they_are(self.workspace)
        return Cell(
            self.workspace,
            shown=shown,
            environment=_environment(door, self.home, job.retries),
            allow_tcp=("127.0.0.1", door.port),
            limits=Limits(seconds=job.seconds, memory_mb=_RESERVED_MB, disk_mb=DISK_MB),
        )


@contextlib.contextmanager
def _place(job: Job) -> Iterator[_Place]:
    sealed = settings().sandbox == "full"
    with tempfile.TemporaryDirectory(prefix="postroom-agent-", ignore_cleanup_errors=True) as made:
        empty = Path(made, "empty")
        empty.mkdir()
        workspace = job.workspace or empty
        if sealed:
            yield _Place(True, workspace, _HOME, (_CODE, _PACKAGES))
            return
        home = Path(made, "home")
        home.mkdir(mode=0o700)
        Path(made).chmod(0o711)
        try:
            yield _Place(False, workspace, str(home), (str(Path(postroom.__file__).parent.parent), str(_packages())))
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _packages() -> Path:
    """Where the SDK lies. It is not loaded: only the child needs it, and no heartbeat gets through meanwhile."""
    found = importlib.util.find_spec("claude_agent_sdk")
    if found is None or found.origin is None:
        raise Misconfigured("claude-agent-sdk is not installed")
    return Path(found.origin).parent.parent


def _kept_as_they_are(workspace: Path) -> dict[str, Path]:
    """Protected files at the top of the workspace, to be mounted read-only: a second wall behind the hook."""
    found = (path for pattern in PROTECTED for path in workspace.glob(pattern))
    return {f"/work/{path.name}": path for path in found if not path.is_symlink() and (path.is_file() or path.is_dir())}


def _environment(door: Gate, home: str, retries: int) -> dict[str, str]:
    """Everything the child may know besides the sandbox's own few; nothing is inherited."""
    scratch = str(Path(home, "tmp"))
    return {
        "PATH": f"{home}/bin",  # empty: the CLI finds no git, no shell, no node to run
        "HOME": f"{home}/home",
        "TMPDIR": scratch,
        "CLAUDE_CONFIG_DIR": f"{home}/config",
        "CLAUDE_CODE_TMPDIR": scratch,
        "CLAUDE_CODE_MAX_RETRIES": str(retries),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",  # both come from one pinned wheel
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        **door.environment(),
    }


def _order(job: Job, home: str, workspace: str) -> bytes:
    order: dict[str, Any] = {
        "prompt": job.prompt,
        "system": job.system,
        "workspace": workspace,
        "home": home,
        "tools": list(job.tools) if job.workspace else [],
        "protected": list(job.protected),
        "schema": as_object(job.schema)[0] if job.schema is not None else None,
        "model": job.model or settings().agent_model,
        "max_turns": job.max_turns,
        "max_usd": job.max_usd,
    }
    return json.dumps(order).encode() + b"\n"
