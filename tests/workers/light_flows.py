"""Flows that the worker tests deploy; they run in a worker's process, so they speak through files and states."""

import asyncio
import logging
import sys
import time
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.settings import get_current_settings

from postroom.logs import child_environment


def note(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{line} {time.time()}\n")


@task
async def shout(text: str) -> str:
    return text.upper()


@task
def shout_sync(text: str) -> str:
    return text.upper()


@flow
async def greet(path: str, who: str = "nobody") -> str:
    note(path, f"greet-{who}")
    return await shout(f"hello {who}")


@flow
def greet_sync(path: str, who: str = "nobody") -> str:
    note(path, f"greet-{who}")
    return shout_sync(f"hello {who}")


@flow
async def fail(path: str) -> None:
    note(path, "fail")
    raise ValueError("the letter is torn")


@flow(timeout_seconds=1)
async def too_slow(path: str) -> None:
    note(path, "too-slow")
    await asyncio.sleep(60)


@flow
async def leave(path: str) -> None:
    note(path, "leave")
    sys.exit(3)


def told_of_cancellation(flow, run, state) -> None:
    note(run.parameters["path"], "hook")


@flow(on_cancellation=[told_of_cancellation])
async def wait(path: str, seconds: float = 60) -> None:
    note(path, "began")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note(path, "interrupted")
        raise
    note(path, "slept")


@flow
async def tidy_up(path: str) -> None:
    note(path, "began")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.sleep(1.3))
        note(path, "tidy")
        raise


@flow
def wait_sync(path: str, seconds: float = 60) -> None:
    note(path, "began")
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(0.02)
    except BaseException:
        note(path, "interrupted")
        raise
    note(path, "slept")


@flow
def deaf(path: str, seconds: float = 6) -> None:
    note(path, "began")
    try:
        time.sleep(seconds)  # one long call: nothing can be thrown into it
        note(path, "went-on")
    finally:
        note(path, "let-go")


@flow
async def blocking(path: str, seconds: float = 3) -> None:
    note(path, "began")
    time.sleep(seconds)
    note(path, "slept")


@flow
async def talk(path: str) -> None:
    get_run_logger().info("in the flow, password=hunter2hunter2")
    logging.getLogger("postroom.talk").info("in the library")
    code = "import logging; from postroom.logs import start_logging; start_logging(); logging.info('in the child')"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), **child_environment()}
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=environment)
    await child.wait()
    note(path, "talked")


@flow
async def beat(path: str) -> None:
    note(path, f"every-{get_current_settings().flows.heartbeat_frequency}")
