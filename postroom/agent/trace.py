"""The record of one agent run: what it called, how long each call took, what it was refused, what it used."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from postroom.errors import sanitise

_SHOWN = 200


@dataclass
class Usage:
    """Tokens of one run."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Usage:
        """From the model's own usage block."""
        raw = raw or {}
        return cls(
            input=int(raw.get("input_tokens") or 0),
            output=int(raw.get("output_tokens") or 0),
            cache_read=int(raw.get("cache_read_input_tokens") or 0),
            cache_write=int(raw.get("cache_creation_input_tokens") or 0),
        )

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    @property
    def cache_efficiency(self) -> float:
        """The share of the tokens read that came from the cache, 0 to 1."""
        read = self.input + self.cache_read + self.cache_write
        return self.cache_read / read if read else 0.0


@dataclass
class ToolCall:
    id: str
    name: str
    input: dict[str, Any]
    at: float  # seconds since the run began
    seconds: float | None = None
    ok: bool | None = None
    note: str = ""


@dataclass
class Refusal:
    tool: str
    input: dict[str, Any]
    why: str
    at: float


@dataclass
class Todo:
    title: str
    status: str
    at: float
    started: float | None = None
    finished: float | None = None


@dataclass
class Trace:
    """Grows while the run goes on, so that a killed run has one too."""

    calls: list[ToolCall] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    todos: dict[str, Todo] = field(default_factory=dict)
    retries: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak_mb: int = 0
    session: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)  # counted turn by turn, for runs that never say their total
    began: float = field(default_factory=time.monotonic, repr=False)

    def now(self) -> float:
        return round(time.monotonic() - self.began, 3)

    def note(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of the child."""
        match event.get("event"):
            case "begun":
                self.session, self.model = str(event.get("session", "")), str(event.get("model", ""))
            case "turn":
                self.usage = self.usage.plus(Usage.of(event.get("usage")))
            case "said":
                self.said.append(sanitise(str(event.get("text", "")), limit=2000))
            case "tool":
                self._tool(str(event.get("id")), str(event.get("name")), event.get("input") or {})
            case "tool-end":
                self._tool_end(str(event.get("id")), bool(event.get("ok")), str(event.get("note") or ""))
            case "refused":
                given = summary_of(event.get("input") or {})
                self.refused.append(Refusal(str(event.get("name")), given, str(event.get("why")), self.now()))
            case "retry":
                self.retries.append({"at": self.now(), "status": event.get("status"), "delay": event.get("delay")})

    def _tool(self, id: str, name: str, given: Mapping[str, Any]) -> None:
        self.calls.append(ToolCall(id, name, summary_of(given), self.now()))
        match name:
            case "TodoWrite":
                for item in given.get("todos") or []:
                    if isinstance(item, Mapping):
                        title = str(item.get("content", ""))
                        self._todo(title, title, str(item.get("status", "pending")))
            case "TaskCreate":
                self._todo(str(len(self.todos) + 1), str(given.get("subject", "")), "pending")
            case "TaskUpdate" if str(given.get("taskId")) in self.todos:
                known = self.todos[str(given["taskId"])]
                self._todo(str(given["taskId"]), known.title, str(given.get("status") or known.status))

    def _todo(self, key: str, title: str, status: str) -> None:
        todo = self.todos.setdefault(key, Todo(sanitise(title, limit=_SHOWN), status, self.now()))
        todo.status = status
        if status == "in_progress" and todo.started is None:
            todo.started = self.now()
        if status == "completed" and todo.finished is None:
            todo.finished = self.now()

    def _tool_end(self, id: str, ok: bool, note: str) -> None:
        for call in reversed(self.calls):
            if call.id == id and call.seconds is None:
                call.seconds = round(self.now() - call.at, 3)
                call.ok, call.note = ok, sanitise(note, limit=_SHOWN)
                return


def summary_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's arguments without their bulk and without secrets."""
    short: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, str) and len(value) > _SHOWN:
            short[key] = f"{sanitise(value[:80])}… ({len(value)} characters)"
        elif isinstance(value, str):
            short[key] = sanitise(value)
        elif isinstance(value, (int, float, bool)) or value is None:
            short[key] = value
        else:
            short[key] = f"({type(value).__name__} of {len(value)})" if hasattr(value, "__len__") else str(type(value))
    return short


def session_trace(result: Any, *, correlation: str = "") -> dict[str, Any]:
    """The `session_trace.json` of a result."""
    trace: Trace = result.trace
    return {
        "correlation": correlation,
        "driver": result.driver,
        "outcome": result.outcome,
        "partial": result.partial,
        "note": result.note,
        "reset_at": result.reset_at.isoformat() if result.reset_at else None,
        "error": {"category": result.error.category, "message": str(result.error)} if result.error else None,
        "model": trace.model,
        "session": trace.session,
        "seconds": trace.seconds,
        "turns": result.turns,
        "cost_usd": result.cost_usd,
        "tokens": asdict(result.usage),
        "cache_efficiency": round(result.usage.cache_efficiency, 4),
        "peak_mb": trace.peak_mb,
        "tools": [asdict(call) for call in trace.calls],
        "refused": [asdict(refusal) for refusal in trace.refused],
        "todos": [asdict(todo) for todo in trace.todos.values()],
        "retries": list(trace.retries),
        "said": list(trace.said),
    }


def rows(result: Any) -> list[dict[str, Any]]:
    """The trace as the rows of a table: one per tool call and refusal, in order."""
    trace: Trace = result.trace
    table = [
        {"at": c.at, "what": c.name, "on": _target(c.input), "seconds": c.seconds, "result": _outcome(c)}
        for c in trace.calls
    ] + [
        {"at": r.at, "what": f"{r.tool} (refused)", "on": _target(r.input), "seconds": None, "result": r.why}
        for r in trace.refused
    ]
    return sorted(table, key=lambda row: float(row["at"] or 0))


def summary_log(result: Any, *, correlation: str = "") -> str:
    """The `summary.log` of a result: one page."""
    trace, usage = result.trace, result.usage
    lines = [
        f"{correlation or 'agent'}: {result.outcome} by {result.driver} in {trace.seconds:.1f} s, {result.turns} turns",
        f"cost ${result.cost_usd:.4f}; tokens in {usage.input}, out {usage.output}, cache read {usage.cache_read}, "
        f"cache written {usage.cache_write} ({usage.cache_efficiency:.0%} from the cache); peak {trace.peak_mb} MB",
    ]
    if result.note:
        lines.append(result.note)
    if result.error:
        lines.append(f"error ({result.error.category}): {result.error}")
    by_tool: dict[str, list[float]] = {}
    for call in trace.calls:
        by_tool.setdefault(call.name, []).append(call.seconds or 0.0)
    if by_tool:
        lines.append("")
        lines += [f"{name:<18} {len(took):>4} calls {sum(took):>8.2f} s" for name, took in sorted(by_tool.items())]
    for title, items in (("refused", [f"{r.tool} {_target(r.input)}: {r.why}" for r in trace.refused]),):
        if items:
            lines += ["", f"{title}:", *(f"  {item}" for item in items[:20])]
    if trace.todos:
        lines += ["", "to do:", *(f"  {_todo_line(todo)}" for todo in list(trace.todos.values())[:20])]
    if trace.retries:
        lines += ["", f"calls to the model that were tried again: {len(trace.retries)}"]
    if result.text:
        lines += ["", sanitise(result.text, limit=1500)]
    return "\n".join(lines) + "\n"


def _todo_line(todo: Todo) -> str:
    took = f" {todo.finished - (todo.started or todo.at):.1f} s" if todo.finished is not None else ""
    return f"[{todo.status}{took}] {todo.title}"


def _target(given: Mapping[str, Any]) -> str:
    for key in ("file_path", "path", "pattern", "command", "url", "subject"):
        if given.get(key):
            return str(given[key])
    return ""


def _outcome(call: ToolCall) -> str:
    return "unfinished" if call.ok is None else "ok" if call.ok else f"failed: {call.note}"
