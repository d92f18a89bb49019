"""What a child that opens a stranger's picture may use, set by itself before it reads a byte."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

NOBODY = 65534
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def confine(*, memory_mb: int, cpu_seconds: int, job_fd: int) -> None:
    """Bounds for this process: memory, CPU, no new files or sockets, no privileges.

    `job_fd` must be 3, with 0 to 2 open: the limit on descriptors then leaves none to be had,
    so neither a file nor a connection can be opened from here on.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    allowed = memory_mb * 1024 * 1024
    _limit(resource.RLIMIT_DATA, allowed)
    # address space counts mapped libraries and reserved arenas too: it is the second line
    _limit(resource.RLIMIT_AS, allowed + _mapped() + 512 * 1024 * 1024)
    _limit(resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 5)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    _limit(resource.RLIMIT_NOFILE, job_fd + 1)


def _limit(which: int, soft: int, hard: int | None = None) -> None:
    ceiling = resource.getrlimit(which)[1]
    hard = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    with contextlib.suppress(ValueError):  # a platform without this limit
        resource.setrlimit(which, (soft, hard))


def _mapped() -> int:
    """Bytes of address space this process has already."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - before any import could fail
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0
