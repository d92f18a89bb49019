"""Log lines that say whose work they are about: each starts with the correlation id, and none holds a secret.

The id (`msg-…`, `task-…`, `change-…`) is set once, at the outermost place that knows it:

    with correlate("msg-abc"):
        log.info("opened")            # [msg-abc] opened

Tasks and threads inherit it as context; a child process inherits it as POSTROOM_CORRELATION (`child_environment`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from postroom.errors import sanitise

VARIABLE = "POSTROOM_CORRELATION"
_SAFE = re.compile(r"[^A-Za-z0-9._:@+-]")
_KEYS = {"email": "msg", "edit": "edit", "task": "task", "job": "job", "change": "change"}
_LOOKS_LIKE = re.compile(rf"(?:{'|'.join(sorted(set(_KEYS.values())))})-[A-Za-z0-9._:@+-]+")
_current: ContextVar[str | None] = ContextVar("postroom_correlation", default=None)


_others: list[Callable[[], str | None]] = []


def correlation() -> str | None:
    """The id of the work this code is doing, if it is known."""
    if name := _current.get() or os.environ.get(VARIABLE):
        return name
    return next((name for ask in _others if (name := ask())), None)


def ask_also(source: Callable[[], str | None]) -> None:
    """Lets whoever carries out work (and knows its id, which this library can't) say so."""
    if source not in _others:
        _others.append(source)


@contextlib.contextmanager
def correlate(name: str) -> Iterator[str]:
    """Until the end of the block, every log line starts with this id."""
    token = _current.set(tidy(name))
    try:
        yield tidy(name)
    finally:
        _current.reset(token)


def child_environment() -> dict[str, str]:
    """What a child process needs in its environment to write the same id."""
    name = correlation()
    return {VARIABLE: name} if name else {}


def correlation_for_key(key: str) -> str:
    """The id that belongs to a run's idempotency key: `email:abc` is `msg-abc`."""
    kind, _, rest = key.partition(":")
    return tidy(f"{_KEYS.get(kind, kind)}-{rest}" if rest else kind)


def looks_like_correlation(text: str) -> bool:
    """Whether a name is one of our ids (runs may be named by theirs)."""
    return bool(_LOOKS_LIKE.fullmatch(text))


def tidy(name: str) -> str:
    """The id with nothing in it that could break a log line: it may come from a stranger's mail."""
    return _SAFE.sub("_", name)[:200]


class Correlated(logging.Filter):
    """Puts the id in front of a record's message and takes secrets out; a record is treated once."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "correlated", False):
            return True
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # arguments that don't fit: the line is still worth having
            message = f"{record.msg} {record.args}"
        name = self.name_of(record)
        record.msg = f"[{name}] {sanitise(message)}" if name else sanitise(message)
        record.args = None
        if record.exc_info:
            record.exc_text = sanitise(record.exc_text or logging.Formatter().formatException(record.exc_info))
        record.correlation = name
        record.correlated = True
        return True

    def name_of(self, record: logging.LogRecord) -> str | None:
        """The id for a record; Prefect's records carry the run they belong to."""
        if name := correlation():
            return name
        run_name = getattr(record, "flow_run_name", None)
        if isinstance(run_name, str) and looks_like_correlation(run_name):
            return run_name
        run = getattr(record, "flow_run_id", None)
        return f"run-{str(run)[:8]}" if run and str(run) != "<unknown>" else None


class ReadableLines(logging.Formatter):
    """Lines for people: the id, the time, the level, where from, what. A traceback's lines carry the id too."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        name = getattr(record, "correlation", None)
        mark = f"[{name}] " if name else ""
        text = record.getMessage().removeprefix(mark)
        if record.exc_info:
            text += "\n" + (record.exc_text or self.formatException(record.exc_info))
        first, *rest = text.splitlines() or [""]
        lines = [f"{mark}{at} {record.levelname:<7} {record.name} - {first}", *(f"{mark}{line}" for line in rest)]
        return "\n".join(lines)


class JsonLines(logging.Formatter):
    """One JSON object per record, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "correlation": getattr(record, "correlation", None),
            "message": record.getMessage(),
            "process": record.process,
        }
        for extra in ("flow_run_id", "flow_run_name", "task_run_id", "task_run_name", "flow_name"):
            if value := getattr(record, extra, None):
                line[extra] = str(value)
        if record.exc_info:
            line["error"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def formatter(style: Literal["readable", "json"] | None = None) -> logging.Formatter:
    """The formatter that a style, or else the setting `log_format`, asks for."""
    if style is None:
        from postroom.settings import settings

        style = settings().log_format
    return JsonLines() if style == "json" else ReadableLines()


def start_logging(style: Literal["readable", "json"] | None = None, level: int = logging.INFO) -> None:
    """Sends this process's log to standard output in our form (for processes without Prefect)."""
    lines = logging.StreamHandler(sys.stdout)
    lines.addFilter(Correlated())
    lines.setFormatter(formatter(style))
    root = logging.getLogger()
    root.handlers = [lines]
    root.setLevel(level)
