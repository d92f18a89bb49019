"""On what was measured, in a line that tells no host's name."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version


def described() -> str:
    """Cores, memory, versions and the date."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{datetime.now(UTC):%Y-%m-%d} · {cores} cores, {memory:.0f} GiB · {platform.system()} {platform.machine()} · "
        f"Python {platform.python_version()}, Prefect {version('prefect')}"
    )


def busy() -> str | None:
    """A warning when other work leaves the machine no room for a fair comparison."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load <= cores / 2:
        return None
    return (
        f"**The machine was busy with other work (load {load:.1f} on {cores} cores before the start).** Whoever needs "
        "more CPU per run suffers more from that: the ratios are larger than on a quiet machine, and no verdict."
    )
