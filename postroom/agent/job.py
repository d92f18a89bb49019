"""What an agent is asked to do, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from postroom.agent.confine import FILE_TOOLS
from postroom.agent.trace import Trace, Usage
from postroom.errors import LimitReached, OurFault, PostroomError, RateLimited, TimedOut

Outcome = Literal["done", "max-turns", "budget", "timeout", "stuck", "interrupted", "failed"]


@dataclass(frozen=True)
class Medium:
    """One attachment as it lies in the workspace; paths are relative to it, with forward slashes."""

    filename: str
    kind: Literal["image", "document"]
    path: str  # the AVIF master of a picture, the animation, or the document itself
    fallback: str | None = None  # of a picture that does not move
    width: int | None = None
    height: int | None = None
    text: str | None = None  # readable text of a document


@dataclass(frozen=True)
class Earlier:
    """One earlier mail or reply of the same thread."""

    who: str
    at: datetime
    text: str


@dataclass(frozen=True)
class Instruction:
    """One mail that asks for a change of the site."""

    message_id: str
    sender: str
    subject: str
    text: str
    received: datetime
    media: tuple[Medium, ...] = ()
    history: tuple[Earlier, ...] = ()
    forwarded: str = ""  # what the sender passed on below the text


@dataclass(frozen=True)
class Endpoint:
    """Where the model answers, and the key it wants."""

    url: str | None = None
    token: SecretStr | None = None


@dataclass(frozen=True)
class Job:
    """One piece of work for an agent, with its limits. `briefs.py` makes them for edits and tasks."""

    prompt: str
    system: str = ""
    workspace: Path | None = None
    tools: tuple[str, ...] = FILE_TOOLS
    schema: Mapping[str, Any] | None = None
    model: str | None = None
    correlation: str = "agent"  # stands in front of every line: `task:{id}`, `edit:{project}:{generation}`

    max_turns: int = 30
    max_usd: float | None = None
    seconds: float = 300
    idle_seconds: float = 300
    memory_mb: int = 1024
    retries: int = 2  # of one call to the model, inside the CLI

    protected: tuple[str, ...] = ()  # more file names or patterns that are not the agent's to write
    endpoint: Endpoint | None = None  # the settings' one when unset

    instructions: tuple[Instruction, ...] = ()  # a site edit's mails, oldest first: what `literal` puts onto the site
    example: Any = None  # a task's recorded answer: what `literal` gives


@dataclass(frozen=True)
class Progress:
    """A sign of life: what happened last, when (seconds since the start), and in which turn."""

    what: Literal["begun", "token", "said", "tool", "tool-end", "turn", "refused", "retry"]
    at: float
    turns: int
    tool: str | None = None


OnLine = Callable[[str], None]
OnProgress = Callable[[Progress], None]


@dataclass
class Result:
    """What came out. Only `done` is success: every other outcome left the work unfinished."""

    outcome: Outcome
    driver: str
    output: Any = None
    text: str = ""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    error: PostroomError | None = None
    reset_at: datetime | None = None  # when the endpoint will answer again, if it said so
    note: str = ""  # what a reader must know about how this came about
    trace: Trace = field(default_factory=Trace)

    def __post_init__(self) -> None:
        if self.reset_at is None and isinstance(self.error, RateLimited) and self.error.retry_after is not None:
            self.reset_at = datetime.now(UTC) + timedelta(seconds=self.error.retry_after)

    @property
    def ok(self) -> bool:
        return self.outcome == "done"

    @property
    def partial(self) -> bool:
        """Unfinished, but there is work worth keeping."""
        return not self.ok and bool(self.output is not None or self.trace.calls or self.trace.said)

    @property
    def retryable(self) -> bool:
        """Can the same job succeed when it is tried again?"""
        return self.error is not None and self.error.retryable

    def or_raise(self) -> Result:
        """Itself when done; else raises the error that the outcome stands for."""
        if self.ok:
            return self
        raise self.error or error_of(self.outcome)


def error_of(outcome: Outcome) -> PostroomError:
    """The error that an outcome without one of its own stands for."""
    match outcome:
        case "max-turns":
            return LimitReached("the agent used all its turns before it was finished", limit="turns")
        case "budget":
            return LimitReached("the agent used all its money before it was finished", limit="budget")
        case "timeout":
            return TimedOut("the agent did not finish in time")
        case "stuck":
            return TimedOut("the agent gave no sign of life and was stopped")
        case "interrupted":
            return LimitReached("the agent was interrupted", limit="interrupted")
        case _:
            return OurFault(f"the agent ended as {outcome!r} without saying why")
