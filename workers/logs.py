"""Prefect's own log lines, in our form: `environment()` makes any Prefect process use workers/logging.yml."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from postroom import logs

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

CONFIGURATION = Path(__file__).with_name("logging.yml")
ASK_SECONDS = 2.0  # for the server to say whose run a line is about
ASK_AGAIN_SECONDS = 10.0  # after it could not
KEPT = 1000  # ids of runs


def environment() -> dict[str, str]:
    """What every process that runs or serves flows needs in its environment; its children inherit it."""
    return {"PREFECT_LOGGING_SETTINGS_PATH": str(CONFIGURATION)}


def correlation_of(run: FlowRun) -> str:
    """The correlation id of a run: from its key tag, else from its name, else from its own id."""
    for tag in run.tags or ():
        if tag.startswith("key:"):
            return logs.correlation_for_key(tag.removeprefix("key:"))
    if run.name and logs.looks_like_correlation(run.name):
        return run.name
    return f"run-{str(run.id)[:8]}"


def of_run_around() -> str | None:
    """The correlation id of the run that Prefect is executing around the caller."""
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return None
    return _remember(str(context.flow_run.id), correlation_of(context.flow_run))


logs.ask_also(of_run_around)


class Correlated(logs.Correlated):
    """Also knows lines about a run that are written before and after its body; the server is asked once."""

    def name_of(self, record: logging.LogRecord) -> str | None:
        if name := logs.correlation():
            return name
        run = str(getattr(record, "flow_run_id", None) or "")
        return _known.get(run) or _ask_for(run) or super().name_of(record)


_known: dict[str, str] = {}  # by run
_asking = threading.local()
_ask_again = 0.0


def _ask_for(run: str) -> str | None:
    """The id of a run that only its own record names (a stock worker's lines about the process it starts)."""
    global _ask_again
    if time.monotonic() < _ask_again or getattr(_asking, "now", False):
        return None
    try:
        wanted = UUID(run)
    except ValueError:
        return None
    from prefect import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    _asking.now = True
    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
            get_client(httpx_settings={"timeout": ASK_SECONDS}, sync_client=True) as client,
        ):
            found = correlation_of(client.read_flow_run(wanted))
    except Exception:  # a line without its id is better than no line, or than a worker that waits for one
        _ask_again = time.monotonic() + ASK_AGAIN_SECONDS
        return None
    finally:
        _asking.now = False
    return _remember(run, found)


def _remember(run: str, name: str) -> str:
    if run not in _known and len(_known) >= KEPT:
        _known.clear()
    _known[run] = name
    return name


def formatter() -> logging.Formatter:
    """The formatter of workers/logging.yml."""
    return logs.formatter()
