"""However many start a task, one works on it; and it keeps what it has promised."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from flows import once as once_module
from flows.once import Subject, once
from postroom.aws.clients import client
from postroom.errors import classify
from postroom.ledger import Busy
from postroom.ledger.book import Book, new_holder
from postroom.ledger.clock import Clock
from postroom.settings import settings
from tests.fixtures.model import Model, say
from tests.flows.agent_task.conftest import Room

STARTS = """
import asyncio, json, os, sys, time
from flows.once import Subject, once

key, file, number = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def body(holding):
    with open(file, "a") as lines:
        lines.write(f"{os.getpid()} {holding.fence}\\n")
    await asyncio.sleep(2)
    return {"by": os.getpid()}

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    subject = Subject(key, "task", "Task", "TASK#many")
    found = await asyncio.gather(*(once(subject, body) for _ in range(number)))
    print(json.dumps([each["by"] for each in found]))

asyncio.run(main())
"""


@pytest.mark.timeout(1800)
def test_two_hundred_simultaneous_starts_run_a_task_once(room: Room, tmp_path: Path) -> None:
    number, starts = int(os.environ.get("POSTROOM_TEST_PROCESSES", "5")), 200
    key, file = f"task:{room.request_id}", tmp_path / "worked"
    argv = [sys.executable, "-c", STARTS, key, str(file), str(starts // number)]
    processes = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(process.communicate(timeout=200)[0].splitlines()[-1]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    (line,) = file.read_text().splitlines()
    told = [by for answer in answers for by in answer]
    assert len(told) == starts // number * number
    assert set(told) == {int(line.split()[0])}
    assert (room.row.attempts, room.row.fence) == (1, 1)
    done = [e.event_type for e in room.book.events.of_entity("TASK#many")]
    assert done == ["Task Processing Started", "Task Completed"]


class Skewed(Clock):
    def __init__(self, seconds: float) -> None:
        self._ms = int(seconds * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


@pytest.mark.parametrize("skew", [-10, 10])
async def test_clocks_that_differ_by_ten_seconds_do_not_make_two_holders(
    room: Room, skew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTROOM_PROMISE_SECONDS", "30")
    settings.cache_clear()
    monkeypatch.setattr(once_module, "open_book", lambda: Book(settings(), clock=Skewed(skew)))
    subject = Subject(f"task:{room.request_id}", "task", "Task", f"TASK#{room.request_id}")
    rivals = [Book(settings(), clock=Skewed(other)) for other in (0, -skew / 2, skew / 2)]

    async def body(holding):
        for rival in rivals:
            answer = await asyncio.to_thread(rival.leases.start, subject.key, "task", new_holder())
            assert isinstance(answer, Busy)
        return {}

    await once(subject, body)
    assert room.row.fence == 1


async def test_a_heartbeat_says_whose_job_it_is_and_never_shortens_what_was_promised(
    room: Room, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTROOM_PROMISE_SECONDS", "3")
    settings.cache_clear()
    room.book = Book(settings())
    model.script(say("Slowly.", stall=3))
    await room.run(jobId="job-3")
    events = room.book.events.of_entity(f"TASK#{room.request_id}")
    beats = [event for event in events if event.event_type == "Task Heartbeat"]
    assert len(beats) >= 2
    assert {event.properties["jobId"] for event in beats} == {"job-3"}
    until = [event.effective_until for event in events if event.effective_until]
    assert until == sorted(until)
    assert events[-1].effective_until is None


def test_holding_a_message_on_never_shortens_its_visibility(room: Room) -> None:
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=room.book.names.tasks_queue)["QueueUrl"]
    own = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    assert int(own["VisibilityTimeout"]) == settings().visibility_seconds  # what each extension asks for
    assert settings().extend_seconds * 2 < settings().visibility_seconds


async def test_an_agent_that_hears_no_signal_is_killed(room: Room, model: Model) -> None:
    model.script(say("At it.", stall=60))
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    running = asyncio.create_task(room.run(timeoutSeconds=25))
    deadline = time.monotonic() + 60
    while not model.requests:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    family = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    for one in family:
        if any("postroom.agent.child" in word for word in one.cmdline()):
            one.send_signal(signal.SIGSTOP)  # deaf to SIGTERM
    await running
    assert room.events() == ["Processing Started", "Timeout"]
    deadline = time.monotonic() + 60
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family):
        assert time.monotonic() < deadline, "the agent is still there"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("text", ["took 1400 ms", "read 401 lines", "429 files", "port 5003 is odd", "id 404a"])
def test_numbers_in_an_errors_text_are_no_status_codes(text: str) -> None:
    error = classify(RuntimeError(text))
    assert (error.category, error.retryable) == ("programming", False)
