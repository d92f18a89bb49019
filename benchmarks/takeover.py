"""How long a newer mail takes to take over: until the old agent is gone, and until the new one is at work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.table import Table, percentile
from tests.fixtures.model import Model
from tests.fixtures.room import QUICK, Aws, Room, add_site, opened, until
from tests.fixtures.slow_agent import slow

TITLE = "Taking over"
TIMES = 20
GOALS = (3.0, 5.0, 8.0, 15.0)
# The guard against starving would step in after three; here it must not.
SETTINGS = QUICK | {"POSTROOM_PREEMPT_MAX_IN_ROW": "100000", "POSTROOM_PROMISE_SECONDS": "30"}
LAUNCHER = Path(__file__).with_name("as_on_ecs.py")


def measure() -> str:
    """Twenty preemptions in each of the two ways a run of the heavy pool is started."""
    model = Model()
    agent = {"POSTROOM_AGENT_URL": model.url, "POSTROOM_AGENT_TOKEN": model.key}
    try:
        with opened(SETTINGS | agent) as room:
            assert room.up().returncode == 0
            model.brain = slow(600)
            rows = [("process worker", *_taken_over(room, "by-worker"))]
            with _as_on_ecs(room):
                rows.append(("`prefect flow-run execute`, as on ECS", *_taken_over(room, "as-on-ecs")))
    finally:
        model.close()
    return _table(rows)


def _taken_over(room: Room, project: str) -> tuple[list[float], list[float]]:
    """Seconds until the old agent was gone, and until the new one was at work, for each preemption."""
    add_site(room, project, agent="claude")
    aws, gone, there = Aws(room.status()["aws"]), [], []
    aws.post(f"{project}-first", project, f"note-{project}-first")
    until(lambda: _agents(project), 180, "the first agent")
    for number in range(TIMES):
        old = _agents(project)
        message_id = f"{project}-{number:03d}"
        aws.post(message_id, project, f"note-{message_id}")
        until(lambda: aws.instruction(project, message_id), 60, "the instruction to be in the book")  # noqa: B023
        ready, old_gone, new_there = time.monotonic(), 0.0, 0.0
        while not (old_gone and new_there):
            now = _agents(project)
            if not old_gone and not old & now:
                old_gone = time.monotonic() - ready
            if not new_there and now - old:
                new_there = time.monotonic() - ready
            if time.monotonic() - ready > 120:
                raise AssertionError(f"preemption {number} did not happen")
            time.sleep(0.05)
        gone.append(old_gone)
        there.append(new_there)
    return gone, there


def _agents(project: str) -> set[int]:
    """The agents at work on a site: the CLI itself, wherever it runs."""
    found = set()
    for process in psutil.process_iter(["cmdline", "name"]):
        words = process.info["cmdline"] or []
        if process.info["name"] == "bwrap" and any(f"edit-{project}-" in word for word in words):
            found.add(process.pid)
    return found


@contextmanager
def _as_on_ecs(room: Room) -> Iterator[None]:
    """Runs of the heavy pool are started by the command line of the ECS pools instead; the worker stands still."""
    heavy = room.pids()["heavy"]
    lines = Path(f"/proc/{heavy}/environ").read_bytes().decode().split("\0")
    env = dict(line.split("=", 1) for line in lines if "=" in line)
    os.kill(heavy, signal.SIGSTOP)
    launcher = subprocess.Popen([sys.executable, str(LAUNCHER)], env=env, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(launcher.pid, signal.SIGTERM)
        launcher.wait()
        os.kill(heavy, signal.SIGCONT)


def _table(rows: list[tuple[str, list[float], list[float]]]) -> str:
    table = Table(["started by", "old agent gone: p50", "p95", "new agent running: p50", "p95"])
    reached = True
    for name, gone, there in rows:
        found = [percentile(times, share) for times in (gone, there) for share in (0.5, 0.95)]
        table.rows.append([name, *(f"{seconds:.1f} s" for seconds in found)])
        reached &= all(seconds <= goal for seconds, goal in zip(found, GOALS, strict=True))
    table.sentences = [
        f"{TIMES} preemptions each, one after the other; the agent is the real CLI, waiting for a model that thinks. "
        "Counted from the moment the newer instruction is in the book.",
        f"Goals: {', '.join(f'{goal:g} s' for goal in GOALS)}: {'reached' if reached else '**not reached**'}.",
    ]
    return table.markdown()


if __name__ == "__main__":
    print(measure())
