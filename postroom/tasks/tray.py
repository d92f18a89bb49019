"""A task's files on this machine while it is worked on: `tasks/{request_id}[.r{n}]-{fence}/` of the data directory."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from types import TracebackType
from typing import Any

from postroom.agent.briefs import INPUT
from postroom.agent.prompt import cleaned
from postroom.settings import settings

MOST_LOG_BYTES = 5 * 1024 * 1024


class Tray:
    """Made on entering, gone on leaving (unless the setting keeps it), whatever happens in between."""

    def __init__(self, key: str, fence: int) -> None:
        name, _, replay = key.removeprefix("task:").partition(":")  # a replay's fences begin anew
        if len(name) > 120:  # a file's name ends at 255 bytes
            name = f"{name[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        self._all, self._name = settings().data.expanduser() / "tasks", name
        self.path = self._all / (f"{name}.{replay}-{fence}" if replay else f"{name}-{fence}")
        self.workspace = self.path / "workspace"
        self.agent_log = self.path / "agent.log"
        self._input: str | None = None
        self._written = 0

    def clear(self) -> None:
        """Remove what an attempt that was killed on this machine has left."""
        if settings().task_keep_files:
            return
        for left in self._all.glob(f"{self._name}*"):
            if re.fullmatch(rf"{re.escape(self._name)}(\.r\d+)?-\d+", left.name):
                shutil.rmtree(left, ignore_errors=True)

    def __enter__(self) -> Tray:
        self.clear()
        self.workspace.mkdir(parents=True)
        self.agent_log.touch()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not settings().task_keep_files:
            shutil.rmtree(self.path, ignore_errors=True)

    def put_input(self, given: Any) -> None:
        """The input as a file, for an agent that has file tools; as clean as what stands in a prompt."""
        self._input = json.dumps(cleaned(given), ensure_ascii=False, indent=1)
        self._write_input()

    def lay_anew(self) -> None:
        """The workspace as it was at first: a try that failed has left things that the next would take for given."""
        shutil.rmtree(self.workspace)
        self.workspace.mkdir()
        self._write_input()

    def _write_input(self) -> None:
        if self._input is not None:
            (self.workspace / INPUT).write_text(self._input, encoding="utf-8")

    def say(self, line: str) -> None:
        """One line of the agent's log; a log that is long enough is not written on."""
        if self._written < MOST_LOG_BYTES:
            self._written += len(line) + 1
            with self.agent_log.open("a", encoding="utf-8", errors="replace") as log:
                log.write(f"{line}\n")
                if self._written >= MOST_LOG_BYTES:
                    log.write("… the rest was left out\n")
