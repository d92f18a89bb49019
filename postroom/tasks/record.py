"""What is written down of an agent's work on a task: its result or what there is of one, its log, its trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from postroom.agent.answer import mismatch
from postroom.agent.briefs import INPUT
from postroom.agent.job import Result, error_of
from postroom.agent.trace import session_trace, summary_log
from postroom.agent.tries import Tried
from postroom.errors import LimitReached, OutOfTime, PostroomError, RateLimited, Unparsable
from postroom.tasks.results import PARTIAL, Document, Results
from postroom.tasks.task import Task
from postroom.tasks.tray import Tray


def write_down(results: Results, task: Task, request_id: str, tried: Tried, tray: Tray) -> list[str]:
    """Logs, trace and files, uploaded; the names of the files."""
    correlation = f"task:{request_id}"
    results.store("logs/summary.log", summary_log(tried.result, correlation=correlation))
    results.store("logs/agent.log", tray.agent_log.read_bytes())
    results.store("traces/session_trace.json", session_trace(tried.result, correlation=correlation))
    if not task.tools:
        return []
    (tray.workspace / INPUT).unlink(missing_ok=True)
    kept, left_out = results.store_files(tray.workspace)
    if left_out:
        results.store("logs/left-out.txt", "\n".join(left_out))
    return kept


def document(task: Task, request_id: str, key: str, tried: Tried, files: list[str]) -> Document:
    """The result as it is stored."""
    result = tried.result
    return {
        "requestId": request_id,
        "key": key,
        "name": task.title,
        "definition": task.definition,
        "jobId": task.job_id,
        "status": "completed" if result.ok else result.outcome,
        "complete": result.ok,
        "output": result.output,
        "text": result.text,
        "note": result.note,
        "files": files,
        "driver": result.driver,
        "model": result.trace.model,
        "turns": result.turns,
        "tries": tried.attempts,
        "seconds": result.trace.seconds,
        "costUsd": result.cost_usd,
        "usage": asdict(result.usage),
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def checked(task: Task, result: Result) -> Result:
    """The result; one that calls itself done but breaks the schema is not."""
    if result.ok and task.output_schema and (wrong := mismatch(result.output, task.output_schema)):
        result.outcome, result.error = "failed", Unparsable(f"the answer does not match its schema: {wrong}")
    return result


def outcome_of(stored: Mapping[str, Any], place: str) -> dict[str, Any]:
    """What the book says of a finished task: small, and where the rest lies."""
    names = ("driver", "note", "turns", "tries", "seconds", "costUsd", "usage", "name", "jobId", "definition")
    return {"result": place, **{name: stored[name] for name in names if stored.get(name) not in (None, "")}}


def failure(results: Results, stored: Document, result: Result) -> PostroomError:
    """The error that an unfinished result stands for, knowing what was spent and where what there is was kept."""
    found = result.error or error_of(result.outcome)
    details: dict[str, Any] = {
        **found.details,
        "outcome": result.outcome,
        "turns": result.turns,
        "costUsd": result.cost_usd,
        "usage": stored["usage"],
    }
    if result.partial:
        details["partial"] = results.store(PARTIAL, stored)
    if result.outcome in ("timeout", "stuck"):
        return OutOfTime(str(found), **details)
    if isinstance(found, RateLimited) and result.reset_at is not None:
        left = (result.reset_at - datetime.now(UTC)).total_seconds()
        return RateLimited(str(found), retry_after=max(1.0, left), **details)
    if isinstance(found, LimitReached) and "partial" in details:
        return LimitReached(f"{found}; what there is was kept", **details)
    found.details = details
    return found
