"""What a program costs: CPU seconds of it and all it started, and the most memory they held together."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

_LOOK = 0.05


@dataclass(frozen=True)
class Cost:
    cpu: float
    seconds: float
    peak: int  # bytes, what is shared counted once


def cost_of(argv: Sequence[str], environment: dict[str, str] | None = None) -> Cost:
    """Runs it to its end; raises when it fails. The CPU of descendants counts once their parent has waited for them."""
    begun, peak = time.perf_counter(), 0
    process = subprocess.Popen(argv, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL)
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, _held(process.pid))
        time.sleep(_LOOK)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - begun, peak)


def _held(pid: int) -> int:
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    held = 0
    for one in family:
        try:
            held += one.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return held
