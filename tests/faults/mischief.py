"""What is done to a post room under fire. Each fault is over, or mended by the room itself, a while later."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.faults.steps import steps
from tests.faults.world import World
from workers.parts import free_port

PARTS = ("sensor", "light", "heavy", "warm", "prefect", "aws")
Fault = Callable[[World, random.Random], str | None]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    def known(do: Fault) -> Fault:
        FAULTS[name] = do
        return do

    return known


# Each gives a word on what it hit, or None when there was nothing to hit.


def _kill(part: str) -> Fault:
    def do(world: World, _: random.Random) -> str | None:
        pid = world.room.pids().get(part)
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                return f"pid {pid}"
        return None

    return do


for _part in PARTS:
    FAULTS[f"kill -9 of {_part}"] = _kill(_part)


@fault("kill -9 of a run")
def kill_a_run(world: World, chance: random.Random) -> str | None:
    found = world.runs()
    if not found:
        return None
    run = chance.choice(found)
    with contextlib.suppress(psutil.Error):
        run.kill()
    return f"pid {run.pid}"


@fault("kill -9 at a step")
def kill_at_a_step(world: World, chance: random.Random) -> str | None:
    project, step = chance.choice(sorted(set(world.mails.values()))), chance.choice(steps())
    world.order(project, step)
    world.post(project)
    return f"{project}: {step}"


@fault("SIGTERM to heavy")
def stop_heavy(world: World, _: random.Random) -> str | None:
    pid = world.room.pids().get("heavy")
    if pid is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return f"pid {pid}"


def _sleep(part: str, seconds: float) -> Fault:
    """Stopped past its leases, then continued, as a laptop that was closed."""

    def do(world: World, _: random.Random) -> str | None:
        pid = world.room.pids().get(part)
        if pid is None:
            return None
        _stopped(pid, seconds)
        return f"pid {pid} for {seconds:g} s"

    return do


def _stopped(pid: int, seconds: float) -> None:
    def wake() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    threading.Timer(seconds, wake).start()


FAULTS["sensor sleeps"] = _sleep("sensor", 9)
FAULTS["light sleeps"] = _sleep("light", 9)
FAULTS["prefect sleeps"] = _sleep("prefect", 6)


@fault("a run sleeps past its lease")
def a_run_sleeps(world: World, chance: random.Random) -> str | None:
    found = world.runs()
    if not found:
        return None
    pid = chance.choice(found).pid
    _stopped(pid, 12)
    return f"pid {pid} for 12 s"


def _weather(kind: str, seconds: float, share: float) -> Fault:
    def do(world: World, _: random.Random) -> str | None:
        order_weather(world, kind=kind, seconds=seconds, share=share)
        return f"{seconds:g} s, {share:.0%} of the requests"

    return do


def order_weather(world: World, **wish: object) -> None:
    url = f"{world.urls['aws']}/_postroom/weather"
    request = urllib.request.Request(url, json.dumps(wish).encode(), method="PUT")
    with contextlib.suppress(OSError):  # it is being restarted: no weather then
        urllib.request.urlopen(request, timeout=10).close()


FAULTS["AWS answers 500"] = _weather("refusing", 10, 1.0)
FAULTS["AWS does it and answers 500"] = _weather("forgetful", 10, 0.3)
FAULTS["AWS is silent"] = _weather("silent", 10, 1.0)


@fault("disk full in the workspace")
def disk_full(world: World, _: random.Random) -> str | None:
    """Nothing more can be written there, for a while."""
    work = world.room.data / "sites" / "work"
    if not work.is_mount():
        return None  # not ours to fill
    full = work / "full"
    with contextlib.suppress(OSError), full.open("wb") as file:
        while True:
            file.write(bytes(1 << 20))
    threading.Timer(8, lambda: full.unlink(missing_ok=True)).start()
    return "for 8 s"


@fault("a build hangs")
def build_hangs(world: World, chance: random.Random) -> str | None:
    """The next build that is seen is stopped for good; its time limit has to end it."""
    chance.random()

    def catch() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for process in psutil.process_iter(["cmdline"]):
                words = process.info["cmdline"] or []
                if any("astro" in word for word in words) and "build" in words and _ours(process, world):
                    with contextlib.suppress(psutil.Error):
                        process.suspend()
                    return
            time.sleep(0.1)

    threading.Thread(target=catch, daemon=True).start()
    return "the next one"


def _ours(process: psutil.Process, world: World) -> bool:
    with contextlib.suppress(psutil.Error):
        supervisor = json.loads((world.room.data / "house.json").read_text())["processes"]
        ours = {each["pid"] for each in supervisor}
        return any(parent.pid in ours for parent in process.parents())
    return False


@fault("events doubled and reordered")
def events_doubled(world: World, chance: random.Random) -> str | None:
    known = chance.sample(sorted(world.mails), min(6, len(world.mails)))
    events = [message_id for message_id in known for _ in range(3)]
    chance.shuffle(events)
    sqs = world.aws.sqs
    url = sqs.get_queue_url(QueueName="postroom-mail")["QueueUrl"]
    for message_id in events:
        record = {
            "eventSource": "aws:s3",
            "eventName": "ObjectCreated:Put",
            "s3": {"bucket": {"name": "postroom-mail"}, "object": {"key": f"incoming/{message_id}"}},
        }
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"Records": [record]}))
    return f"{len(known)} mails, 3 times each"


@fault("a second sensor")
def second_sensor(world: World, chance: random.Random) -> str | None:
    other = subprocess.Popen(
        [sys.executable, "-m", "workers.sensor"],
        env=environment(world) | {"POSTROOM_SENSOR_PORT": str(free_port())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seconds = chance.uniform(8, 15)

    def end() -> None:
        other.kill()
        other.wait()

    threading.Timer(seconds, end).start()
    return f"for {seconds:.0f} s, then kill -9"


@fault("clocks go wrong")
def clocks(world: World, chance: random.Random) -> str | None:
    world.order("skew", "1900")  # the promise is 4 s: two of slack
    seconds = chance.uniform(5, 15)
    threading.Timer(seconds, lambda: world.order("skew", None)).start()
    return f"by up to 1.9 s, for {seconds:.0f} s"


def environment(world: World) -> dict[str, str]:
    """What a process needs that joins the post room from outside."""
    pid = world.room.pids()["light"]
    lines = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    told = dict(each.split("=", 1) for each in lines if "=" in each)
    return {name: value for name, value in told.items() if name != "POSTROOM_SENSOR_PORT"}
