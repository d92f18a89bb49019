"""What a task leaves in the tasks' bucket, under `task/logs/{request_id}/`.

    artifacts/task-result.json    the result: written once per attempt key, before completion is recorded
    artifacts/partial-result.json what there was when a limit ended it; never a success
    artifacts/files/…             what the agent wrote
    logs/summary.log  logs/agent.log  traces/session_trace.json
    earlier/{key}.json            results of before, when a task was done once more

A retry that finds its own result does not pay for the work again.
"""

from __future__ import annotations

import json
import mimetypes
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postroom.errors import LeaseLost
from postroom.tasks.drawer import Changed, Drawer

RESULT = "artifacts/task-result.json"
PARTIAL = "artifacts/partial-result.json"
MOST_FILES, MOST_BYTES = 200, 50 * 1024 * 1024
Document = dict[str, Any]


class Results:
    """The folder of one task."""

    def __init__(self, request_id: str, drawer: Drawer | None = None) -> None:
        self._drawer, self._folder = drawer or Drawer(), f"task/logs/{request_id}/"

    @property
    def place(self) -> str:
        """Where the result lies."""
        return self._drawer.place(self._folder + RESULT)

    def latest(self) -> Document | None:
        """The newest result."""
        found = self._drawer.find(self._folder + RESULT)
        return found[0] if found else None

    def find(self, key: str) -> Document | None:
        """The result that an attempt of this very key has left."""
        found = self.latest()
        return found if found is not None and found.get("key") == key else None

    def keep(self, document: Mapping[str, Any]) -> Document:
        """The result as it is stored now: this one, or the one that was there first for the same key.

        LeaseLost when a later replay of the task has left its own: this holder is long past its time.
        """
        path, ours = self._folder + RESULT, dict(document)
        while True:
            found = self._drawer.find(path)
            if found is not None and found[0].get("key") == ours["key"]:
                kept: Document = found[0]
                return kept
            if found is not None:
                if _number(found[0].get("key", "")) > _number(ours["key"]):
                    raise LeaseLost(f"{ours['key']}: {found[0].get('key')} has left its result already")
                self._set_aside(found[0])
            try:
                self._drawer.put(path, ours, tag=found[1] if found else None)
                return ours
            except Changed:
                continue

    def store(self, name: str, text: str | bytes | Mapping[str, Any]) -> str:
        """Anything else of the task; where it lies."""
        if isinstance(text, Mapping):
            text = json.dumps(text, ensure_ascii=False, indent=1, default=str)
        body = text.encode("utf-8", "replace") if isinstance(text, str) else text
        kind = "application/json" if name.endswith(".json") else mimetypes.guess_type(name)[0] or "text/plain"
        return self._drawer.store(self._folder + name, body, kind)

    def store_files(self, directory: Path) -> tuple[list[str], list[str]]:
        """A directory's regular files under artifacts/files/: which were kept, and which were too many or large."""
        kept: list[str] = []
        left_out: list[str] = []
        total = 0
        for path in sorted(_files(directory)):
            name = path.relative_to(directory).as_posix()
            size = path.lstat().st_size
            if len(kept) >= MOST_FILES or total + size > MOST_BYTES:
                left_out.append(name)
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)  # the agent may have swapped it for a link
            with os.fdopen(descriptor, "rb") as file:
                self.store(f"artifacts/files/{name}", file.read(MOST_BYTES))
            kept.append(name)
            total += size
        return kept, left_out

    def names(self) -> list[str]:
        """What there is, relative to the task's folder."""
        return [key.removeprefix(self._folder) for key in self._drawer.names(self._folder)]

    def _set_aside(self, document: Mapping[str, Any]) -> None:
        name = str(document.get("key", "unknown")).replace(":", "-")
        self.store(f"earlier/{name}.json", document)


def _files(directory: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(directory, followlinks=False):
        folders[:] = [name for name in folders if not Path(folder, name).is_symlink()]
        found += [Path(folder, name) for name in names]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _number(key: str) -> int:
    """Which replay a key is: `task:x` the zeroth, `task:x:r2` the second."""
    replay = re.fullmatch(r"[a-z]+:.+:r(\d{1,6})", key)  # `task:r1` is a task that is called r1
    return int(replay[1]) if replay else 0
