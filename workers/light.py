"""The light worker: a Prefect worker that carries out runs inside its own process.

    python -m workers.light --pool light        or        prefect worker start --type light --pool light

A process per run costs seconds of CPU before the first line of a body; here a run costs a few API calls.
New runs are announced (workers/announcements.py); asking for them in intervals is the fallback. Each run
gets a desk, a thread with an event loop (workers/desk.py). Job variables, an environment per run among
them, belong to processes and mean nothing here. Code is loaded once: new library code needs a restart.
After SIGTERM or Ctrl-C it is gone within ten seconds, and what was unfinished is Scheduled again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import threading

from postroom.settings import settings
from workers import logs
from workers.parts import end_with_parent

for _name, _value in logs.environment().items():  # read by Prefect when it is imported
    os.environ.setdefault(_name, _value)

from workers.light_worker import LightWorker  # noqa: E402

__all__ = ["LightWorker"]

GONE_SECONDS = 9.5


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m workers.light", description="Run a light worker.")
    arguments.add_argument("--pool", default="light", help="work pool to serve (made when missing)")
    arguments.add_argument("--name", default=None, help="name of the worker in the UI")
    arguments.add_argument("--limit", type=int, default=None, help="runs at once")
    arguments.add_argument("--queue", action="append", default=None, help="work queue to serve; all when not given")
    told = arguments.parse_args()
    end_with_parent()
    asyncio.run(serve(told.pool, told.name, told.limit, told.queue))


async def serve(pool: str, name: str | None, limit: int | None, queues: list[str] | None) -> None:
    """Serves the pool until a signal comes."""
    from prefect.settings import PREFECT_WORKER_QUERY_SECONDS, temporary_settings

    worker = LightWorker(work_pool_name=pool, name=name, limit=limit, work_queues=queues)
    with temporary_settings({PREFECT_WORKER_QUERY_SECONDS: settings().light_poll_seconds}):
        serving = asyncio.ensure_future(worker.start())

        def stop() -> None:
            # A log that can't be delivered, or a thread that does not end, must not keep the process alive.
            last = threading.Timer(GONE_SECONDS, os._exit, (0,))
            last.daemon = True
            last.start()
            serving.cancel()

        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, stop)
        with contextlib.suppress(asyncio.CancelledError):
            await serving


if __name__ == "__main__":
    main()
