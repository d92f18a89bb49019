"""Letting go is brought to its end, however often and at whatever moment a process is told to stop."""

import asyncio
import signal
import subprocess
import sys

import pytest

from flows.told_to_stop import undisturbed
from postroom.errors import Unavailable

BODY = """
import asyncio
from prefect.utilities.engine import capture_sigterm, commit_control_intent_and_ack
from flows.told_to_stop import listening, undisturbed

async def keep_the_work(step):
    for number in range(step):
        print("letting go", flush=True)
        await asyncio.to_thread(input)
    print("kept", flush=True)

async def beat():
    while True:  # a heartbeat: at most moments it is this that a signal meets
        sum(range(200_000))
        await asyncio.sleep(0)

async def main():
    beating = asyncio.create_task(beat())
    with listening():
        print("working", flush=True)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await undisturbed(keep_the_work(2))
            raise

with capture_sigterm():
    agreed = commit_control_intent_and_ack(lambda: None, lambda: None, lambda: None)
    print("may be cancelled" if agreed else "may not be cancelled", flush=True)
    asyncio.run(main())
"""


def test_a_second_signal_while_an_edit_lets_go_does_not_cut_that_short() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BODY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "may be cancelled\n"
            assert process.stdout.readline() == "working\n"
            for _ in range(2):
                process.send_signal(signal.SIGTERM)
                assert process.stdout.readline() == "letting go\n"
                process.send_signal(signal.SIGTERM)
                process.stdin.write("\n")
                process.stdin.flush()
            assert process.stdout.readline() == "kept\n"
            assert process.wait(30) == 1
            assert process.stderr is not None
            assert "CancelledError" in process.stderr.read()
        finally:
            process.kill()


async def test_what_is_brought_to_its_end_gives_its_answer_to_one_who_was_cancelled_meanwhile() -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def write() -> str:
        begun.set()
        await end.wait()
        return "written"

    waiting = asyncio.create_task(undisturbed(write()))
    await begun.wait()
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    end.set()
    assert await waiting == "written"


async def test_trouble_in_what_is_brought_to_its_end_is_told() -> None:
    async def fail() -> None:
        raise Unavailable("the book does not answer")

    with pytest.raises(Unavailable):
        await undisturbed(fail())
