"""How often a run shows that its process lives: the same on every pool, for one automation watches them all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

HEARTBEAT_SECONDS = 30  # the shortest that Prefect allows; its own default of 180 would look like death


@contextlib.contextmanager
def beating_in_time() -> Iterator[None]:
    """Runs in this context, and in copies of it, beat no more seldom than that."""
    often = PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value()
    wanted = {} if often is None else {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: min(often, HEARTBEAT_SECONDS)}
    with temporary_settings(wanted):
        yield
