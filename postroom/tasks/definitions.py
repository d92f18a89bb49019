"""Definitions of tasks, by name, in the tasks' bucket: `definitions/{name}.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from postroom.errors import BadInput, Conflict, Missing
from postroom.tasks.drawer import Changed, Drawer
from postroom.tasks.task import NAME, Definition, Task

_FOLDER = "definitions/"


class Definitions:
    """What tasks may build on."""

    def __init__(self, drawer: Drawer | None = None) -> None:
        self._drawer = drawer or Drawer()

    def names(self) -> list[str]:
        """In alphabetical order."""
        found = (key.removeprefix(_FOLDER).removesuffix(".json") for key in self._drawer.names(_FOLDER))
        return sorted(name for name in found if re.fullmatch(NAME, name))

    def read(self, name: str) -> Definition:
        """The definition; Missing when there is none of that name."""
        found = self._drawer.find(self._key(name))
        if found is None:
            raise Missing(f"there is no task definition {name!r}; to see which there are: postroom task definitions")
        definition: Definition = Definition.read(found[0], f"the stored definition {name!r}")
        return definition

    def put(self, name: str, told: Mapping[str, Any], *, dry_run: bool = False) -> bool:
        """Whether it is new. Conflict when somebody else changes it at the same time."""
        key, definition = self._key(name), Definition.read(told, "the definition")
        if not definition.prompt:
            raise BadInput("the definition is not valid: prompt: missing")
        before = self._drawer.find(key)
        try:
            if not dry_run:
                self._drawer.put(key, definition.as_json(), tag=before[1] if before else None)
        except Changed:
            raise Conflict(f"the definition {name!r} was changed by somebody else just now", files=[key]) from None
        return before is None

    def delete(self, name: str, *, dry_run: bool = False) -> None:
        """Missing when there is none of that name."""
        key = self._key(name)
        if self._drawer.find(key) is None:
            raise Missing(f"there is no task definition {name!r}")
        if not dry_run:
            self._drawer.delete(key)

    def applied(self, task: Task) -> Task:
        """The task, complete: with what its definition adds."""
        return (task.built_on(self.read(task.definition)) if task.definition else task).complete()

    @staticmethod
    def _key(name: str) -> str:
        if not re.fullmatch(NAME, name):
            raise BadInput(f"{name[:80]!r} is no name of a definition: 1-128 characters of A-Z, a-z, 0-9, '_', '-'")
        return f"{_FOLDER}{name}.json"
