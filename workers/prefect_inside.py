"""The only place that reaches into Prefect's private parts, for one version of Prefect.

Stock Prefect assumes a process per run. Inside one process three of its habits do not fit, and no public
setting changes them:

- who wants a run to end, and why, is one answer per process       → here: one per desk (thread)
- every run opens its own websocket to hear of its suspension and blocks its event loop for it (0.2 s and
  more per run)                                                    → here: the worker's one subscription tells
- a worker is alive when it has polled                             → here: also when it was announced a run

tests/workers/test_prefect_inside.py fails when any of this changes with a new version.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import prefect
from prefect import _flow_run_suspension, flow_engine
from prefect.exceptions import TerminationSignal
from prefect.states import State
from prefect.workers.base import BaseWorker

from postroom.errors import Misconfigured

VERSION = "3.8.8"
Intent = Literal["cancel", "reschedule", "relinquish"]
"""cancel: the engine ends the run as Cancelled; the other two: it stops and leaves the state to us."""

_desks: dict[int, Intent | None] = {}  # by thread
_stock_intent = flow_engine._termination_intent
_stock_observe = flow_engine.observe_flow_run_suspension


class Recalled(TerminationSignal):
    """Thrown into the thread of a synchronous body that has to end."""

    def __init__(self) -> None:
        super().__init__(signal.SIGTERM)


def settle_in() -> None:
    """Makes the flow engine ask the desks; refuses any Prefect but the one this was written for."""
    if prefect.__version__ != VERSION:
        raise Misconfigured(
            f"the light worker is written for Prefect {VERSION}, but {prefect.__version__} is installed"
        )
    flow_engine._termination_intent = _intent
    flow_engine.observe_flow_run_suspension = _observe


@contextlib.contextmanager
def at_desk() -> Iterator[None]:
    """Marks the current thread as a desk."""
    me = threading.get_ident()
    _desks[me] = None
    try:
        yield
    finally:
        _desks.pop(me, None)


def set_intent(thread: int, intent: Intent | None) -> None:
    """Why the body at that desk is being ended."""
    if thread in _desks:
        _desks[thread] = intent


def throw_into(thread: int, error: type[BaseException] | None) -> None:
    """Raises the error in another thread as soon as that runs Python again; None takes it back."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)


def suspend(run: UUID, state: State[Any]) -> None:
    """Tells the engine of a run in this process that the run was suspended."""
    _flow_run_suspension.mark_flow_run_suspension_requested(run, state)


def has_polled(worker: BaseWorker[Any, Any, Any]) -> None:
    """Notes for the health check that the worker is at work."""
    worker._last_polled_time = datetime.now(UTC)  # type: ignore[assignment]


def queues_of(worker: BaseWorker[Any, Any, Any]) -> list[str]:
    """The work queues the worker was told to serve; none means all."""
    return sorted(worker._work_queues)


def pool_of(worker: BaseWorker[Any, Any, Any]) -> str:
    """The name of the worker's pool, known before it has spoken to the server."""
    return worker._work_pool_name


def _intent() -> Any:
    me = threading.get_ident()
    return _desks[me] if me in _desks else _stock_intent()


@contextlib.contextmanager
def _observe(flow_run_id: UUID, *args: Any, **kwargs: Any) -> Iterator[None]:
    if threading.get_ident() in _desks:
        yield
    else:
        with _stock_observe(flow_run_id, *args, **kwargs):
            yield
