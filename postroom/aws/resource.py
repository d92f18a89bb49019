"""What every provisioned thing can say and do, and the steps a plan is made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from botocore.exceptions import ClientError

from postroom.errors import TimedOut

Action = Literal["create", "update", "unchanged", "remove"]


@dataclass(frozen=True)
class Step:
    """One line of a plan: what happens to which resource, and why."""

    kind: str
    name: str
    action: Action
    differences: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {"kind": self.kind, "name": self.name, "action": self.action, "differences": list(self.differences)}


class Resource(Protocol):
    """A resource as it should be. `differences` asks AWS; None means that it is not there at all."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    def differences(self) -> list[str] | None: ...

    def create(self) -> None: ...

    def mend(self, differences: list[str]) -> None: ...


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 120, every: float = 0.5) -> None:
    """Returns when the condition holds; raises TimedOut naming what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimedOut(f"{what} after {seconds:.0f} s")
        time.sleep(every)
