"""The light worker beside Prefect's own process worker and beside running flows without any worker."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.private_prefect import private_prefect
from benchmarks.rounds import Peer, take_turns
from benchmarks.table import Table, percentile

TITLE = "Light worker"
ROUNDS = 4  # fewer when the machine is too slow for them
POLL = "0.2"  # seconds
STOCK_AT_ONCE = str(2 * (os.cpu_count() or 1))  # each costs seconds of CPU: more only wait for each other


def peers() -> list[Peer]:
    """Who is measured, the reference first."""
    quick = {"command": f"{sys.executable} -m prefect.engine"}
    often = {"PREFECT_WORKER_QUERY_SECONDS": POLL}
    return [
        Peer("`light`", "light", singles=6, burst=80),
        Peer("process worker, best settings", "process", 2, 4, ("--limit", STOCK_AT_ONCE), often, quick),
        Peer("process worker, as it comes", "process", singles=1, burst=3),
        Peer("in-process floor, one at a time", "", singles=6, burst=40, at_once=1),
        Peer("in-process floor, as many at once as `light`", "", singles=6, burst=40),
    ]


def measure() -> str:
    """Latency from creating a run to its body, and runs per minute, of each peer in turns."""
    crew = peers()
    with private_prefect() as data, ExitStack() as stack:
        for peer in crew:
            if peer.kind:
                stack.enter_context(_worker(peer, data / f"{peer.pool}.log"))
        # In a process of its own: what Prefect reads when it is imported is then about this server.
        measuring = stack.enter_context(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
        crew = measuring.submit(take_turns, crew, ROUNDS, data / "book").result()
    return _table(crew).markdown()


@contextmanager
def _worker(peer: Peer, log: Path) -> Iterator[None]:
    argv = [sys.executable, "-m", "prefect", "worker", "start", "--type", peer.kind]
    if peer.kind == "light":
        argv = [sys.executable, "-m", "workers.light"]
    with log.open("wb") as lines:
        process = subprocess.Popen(
            [*argv, "--pool", peer.pool, *peer.arguments],
            env={**os.environ, **peer.environment},  # the stock ones log as they come, too
            stdout=lines,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _table(crew: list[Peer]) -> Table:
    light, best, stock, *floors = crew
    floor = max(floors, key=lambda peer: peer.rate)
    table = Table(["", "create → body, p50", "p95", "light is", "runs per minute", "light does"])
    for peer in crew:
        table.rows.append(
            [
                peer.name,
                f"{peer.p50:.2f} s",
                f"{percentile(peer.latencies, 0.95):.2f} s",
                "" if peer is light else f"{peer.p50 / light.p50:.1f}× as quick",
                f"{peer.rate:.0f}",
                "" if peer is light else _times(light.rate / peer.rate),
            ]
        )
    goals = [
        ("create → body p50 ≤ 0.4 s", light.p50 <= 0.4),
        ("8× quicker than the best process worker", best.p50 >= 8 * light.p50),
        ("25× quicker than it as it comes", stock.p50 >= 25 * light.p50),
        ("6× its runs per minute", light.rate >= 6 * best.rate),
        ("half of the floor's", light.rate >= 0.5 * floor.rate),
        ("aim: 8×", light.rate >= 8 * best.rate),
        ("aim: 70% of the floor", light.rate >= 0.7 * floor.rate),
    ]
    table.sentences = [
        f"One flow with an empty body; one Prefect server on one Postgres; rounds: {len(light.per_minute)}, in which "
        f"all take turns, all workers up throughout. Best settings: a poll every {POLL} s, "
        f"`command: python -m prefect.engine`, {STOCK_AT_ONCE} at once. The floor creates runs as Pending and "
        "executes them in the creating process by Prefect's own engine. Runs per minute: a burst "
        f"({', '.join(str(peer.burst) for peer in crew)} runs), from the first create to the last terminal state; "
        f"median of the rounds. Latencies are of {', '.join(str(len(peer.latencies)) for peer in crew)} single runs.",
        "Goals: " + " · ".join(f"{'✓' if reached else '✗'} {goal}" for goal, reached in goals),
    ]
    return table


def _times(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio > 1 else f"{ratio:.0%}"
