"""However a run ends, nothing of it is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from postroom.agent.run import run
from tests.fixtures.model import say, use
from tests.patience import PATIENCE
from tests.postroom.agent.conftest import agents

PARENT = """
import asyncio, sys
from pathlib import Path
from pydantic import SecretStr
from postroom.agent.job import Endpoint, Job
from postroom.agent.run import run

url, key, workspace = sys.argv[1:]
job = Job("Go on.", workspace=Path(workspace), endpoint=Endpoint(url, SecretStr(key)), seconds=60)
asyncio.run(run(job, driver="claude"))
"""


async def _when(condition, what, seconds=20.0):
    seconds *= PATIENCE
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        await asyncio.sleep(0.05)


async def test_a_stop_interrupts_within_seconds_and_still_gives_the_result(job, model):
    model.script(use("Write", file_path="half.txt", content="half"), say("Still at it.", stall=60))
    stop = asyncio.Event()
    working = asyncio.create_task(run(job(), driver="claude", stop=stop))
    await _when(lambda: len(model.requests) == 2, "the second turn did not begin")

    began = time.monotonic()
    stop.set()
    result = await working

    assert time.monotonic() - began < 5
    assert result.outcome == "interrupted"
    assert result.partial
    assert [call.name for call in result.trace.calls] == ["Write"]
    assert not agents()


async def test_a_cancelled_run_is_gone_within_seconds(job, model):
    model.script(say("At it.", stall=60))
    working = asyncio.create_task(run(job(), driver="claude"))
    await _when(lambda: model.requests, "the run did not begin")
    assert agents()

    began = time.monotonic()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working

    assert working.cancelled()
    assert time.monotonic() - began < 5
    assert not agents()


async def test_a_child_that_hears_nothing_is_killed(job, model):
    model.script(say("At it.", stall=60))
    stop = asyncio.Event()
    working = asyncio.create_task(run(job(), driver="claude", stop=stop))
    await _when(lambda: model.requests, "the run did not begin")
    family = agents()
    for one in family:
        if any("postroom.agent.child" in word for word in one.cmdline()):
            one.send_signal(signal.SIGSTOP)

    stop.set()
    result = await working

    assert result.outcome == "interrupted"
    assert not [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


async def test_kill_9_of_the_parent_leaves_no_process(model, workspace, tmp_path):
    model.script(say("At it.", stall=60))
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    here = str(Path(__file__).parents[3])
    parent = subprocess.Popen(
        [sys.executable, str(script), model.url, model.key, str(workspace)], env={**os.environ, "PYTHONPATH": here}
    )
    try:
        await _when(lambda: model.requests, "the run did not begin")
        family = psutil.Process(parent.pid).children(recursive=True)
        assert any("claude" in one.name() for one in family)
    finally:
        parent.kill()
        parent.wait()

    def gone() -> bool:
        return not [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]

    await _when(gone, "processes were left", 5)


async def test_kill_9_of_the_child_is_an_outcome_and_leaves_no_process(job, model):
    model.script(say("At it.", stall=60))
    working = asyncio.create_task(run(job(), driver="claude"))
    await _when(lambda: model.requests, "the run did not begin")
    cli = next(one for one in agents() if "claude" in one.name())
    child = cli.parent()
    child.kill()

    result = await asyncio.wait_for(working, 10)

    assert (result.outcome, result.error.category) == ("failed", "server")
    assert not agents()


async def test_more_memory_than_allowed_ends_it(job, model):
    model.script(say("At it.", stall=60))
    result = await run(job(memory_mb=64), driver="claude")
    assert result.outcome == "failed"
    assert result.error.category == "limit"
    assert "64 MB" in str(result.error)
    assert result.trace.peak_mb > 64
    assert not agents()
