"""What differs between two documents, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """One field; None stands for: not there."""

    field: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        return {"field": self.field, "before": self.before, "after": self.after}


def differences(before: Mapping[str, Any], after: Mapping[str, Any], where: str = "") -> Iterator[Difference]:
    """Every field whose value differs, by its path; lists are compared whole."""
    for name in dict.fromkeys((*before, *after)):
        path = f"{where}.{name}" if where else name
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            if not all(isinstance(each, Mapping) or each is None for each in (old, new)):
                yield Difference(path, old, new)
            else:
                yield from differences(old or {}, new or {}, path)
        elif old != new:
            yield Difference(path, old, new)
