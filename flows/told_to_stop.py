"""A process that is told to stop hears it once, as a cancellation of the body that it carries out.

Prefect's handler of SIGTERM raises in whatever the process does just then, at every signal: in a heartbeat, where
nobody notices, or in the event loop, which then ends in the middle of what a body has begun to bring to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import prefect.utilities.engine as engine
from prefect.exceptions import TerminationSignal

log = logging.getLogger("postroom.flows")
T = TypeVar("T")


class _Ear:
    """Prefect's handler until a body listens; from then on the body is told, once."""

    def __init__(self) -> None:
        self.body: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self.told = False

    def __call__(self, number: int, *_: object) -> None:
        if self.body is None:
            raise TerminationSignal(signal=number)
        if not self.told:
            self.told = True
            loop, task = self.body
            loop.call_soon_threadsafe(task.cancel)


_ear = _Ear()
# By this name Prefect installs its handler, and knows it again before it agrees to be cancelled.
engine._prefect_sigterm_handler = _ear  # type: ignore[assignment]


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Have a signal to this process cancel the present task; in a thread, where there are none, nothing changes."""
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _ear.body, _ear.told = _ear.body, (asyncio.get_running_loop(), task), False
    try:
        yield
    finally:
        _ear.body = before


async def undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. Who is cancelled meanwhile, however often, waits for its end all the same."""
    doing = asyncio.ensure_future(work)
    while not doing.done():
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            log.debug("told to stop while bringing things to their end")
        except Exception:
            break  # its own; told below
    return doing.result()
