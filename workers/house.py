"""The local post room: which parts it has, what each needs, and one process that looks after them.

local AWS ──▶ provision ─────────────────┐
Postgres ──▶ Prefect ──▶ deploy ──▶ sample site, light worker, heavy worker, warm process, sensor
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import Any

from postroom.errors import OurFault, Unavailable
from workers import local_prefect, logs, postgres
from workers.engine import WARM
from workers.parts import Part, port_is_free
from workers.premises import Ports, Premises, addresses, environment, forget_foreign, shorten
from workers.supervisor import Member, Supervisor, until_told

TITLES = {
    "aws": "local AWS",
    "provision": "queues, buckets and tables",
    "postgres": "Postgres",
    "prefect": "Prefect server and UI",
    "deploy": "pools, limits, blocks, deployments",
    "sample": "sample site",
    "light": "light worker",
    "heavy": "heavy worker",
    "warm": "warm process for the heavy worker's runs",
    "sensor": "sensor",
}
PORT_TITLES = {"prefect": "the Prefect UI", "aws": "the local AWS", "postgres": "Postgres", "sensor": "the sensor"}
Tell = Callable[[Member, str], None]


class House:
    """One local post room on one data directory."""

    def __init__(self, data: Path, ports: Ports, *, tell: Tell = lambda *_: None) -> None:
        self.premises = Premises(data.resolve())
        self.ports = ports
        self.urls = addresses(ports)
        self._tell = tell
        self._begun = datetime.now(UTC)
        self._ready = False
        self.supervisor = Supervisor(self._members(), tell=self._noted)

    async def run(self, to_stop: asyncio.Event, *, when_ready: Callable[[], None] = lambda: None) -> None:
        """Runs everything until told to stop; raises when a part does not get ready."""
        lock = self.premises.lock()
        if lock is None:
            raise Unavailable(f"another `postroom up` runs on {self.premises.data}")
        try:
            check_ports(self.ports)
            forget_foreign()
            os.environ.update(environment(self.premises.data, self.urls))
            if await until_told(to_stop, self.supervisor.start()):
                self._ready = True
                self._write()
                when_ready()
                while not to_stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(to_stop.wait(), 60)
                    for log in self.premises.logs.glob("*.log"):
                        shorten(log, 50_000_000)
            self._ready = False
            await self.supervisor.stop()
        finally:
            self._write(stopped=True)
            os.close(lock)

    def _noted(self, member: Member, remark: str) -> None:
        self._write()
        self._tell(member, remark)

    def _write(self, *, stopped: bool = False) -> None:
        self.premises.write_state(
            {
                "pid": None if stopped else os.getpid(),
                "ready": self._ready,
                "since": self._begun.isoformat(timespec="seconds"),
                "data": str(self.premises.data),
                "ports": asdict(self.ports),
                **self.urls,
                "steps": {member.name: member.state for member in self.supervisor.members.values()},
                "processes": [] if stopped else self.supervisor.rows(),
            }
        )

    def _members(self) -> list[Member]:
        data, ports, log = self.premises.data, self.ports, self.premises.log
        python = [sys.executable, "-m"]
        sensor_env = {"POSTROOM_SENSOR_PORT": str(ports.sensor)}
        warm = data / "warm"
        return [
            Member(
                Part(
                    name="aws",
                    argv=[*python, "deployments.local_aws", "--port", str(ports.aws), "--data", str(data)],
                    ready=lambda: answers(f"{self.urls['aws']}/_postroom/health"),
                    log=log("aws"),
                )
            ),
            Member(
                Part(
                    "provision", [*python, "deployments.provision"], ready=bool, log=log("provision"), ready_seconds=90
                ),
                after=("aws",),
                once=True,
                hint="`postroom provision --dry-run` says what it would create.",
            ),
            Member(
                postgres.part(data, ports.postgres),
                hint="An installed Postgres is used when there is one; otherwise its binaries are downloaded once.",
            ),
            Member(local_prefect.part(data, ports.prefect, ports.postgres), after=("postgres",)),
            Member(
                Part("deploy", [*python, "deployments.deploy"], bool, log("deploy"), ready_seconds=90),
                after=("prefect",),
                once=True,
                hint="`postroom deploy --dry-run` says what it would write.",
            ),
            Member(
                Part("sample", [*python, "deployments.sample_site"], bool, log("sample"), ready_seconds=180),
                after=("provision", "deploy"),
                once=True,
                hint="It is fetched from npm the first time; `postroom site add` adds a site of your own.",
            ),
            self._worker("light", [*python, "workers.light", "--name", "light"], {}),
            self._worker(
                "heavy",
                [
                    *python,
                    "prefect",
                    "worker",
                    "start",
                    "--type",
                    "process",
                    "--pool",
                    "heavy",
                    "--name",
                    "heavy",
                ],
                {
                    **logs.environment(),
                    WARM: str(warm),
                    "PREFECT_WORKER_QUERY_SECONDS": "2",
                    "PREFECT_WORKER_PREFETCH_SECONDS": "2",
                },
            ),
            Member(
                Part(
                    "warm",
                    [*python, "workers.warm", str(warm)],
                    ready=lambda: listens(warm),
                    log=log("warm"),
                    env=logs.environment(),
                    ready_seconds=90,
                ),
                after=("deploy",),
            ),
            Member(
                Part(
                    name="sensor",
                    argv=[*python, "workers.sensor"],
                    ready=lambda: answers(self.urls["sensor"]),
                    log=log("sensor"),
                    env=sensor_env,
                    stop_seconds=12,
                    ready_seconds=90,
                ),
                after=("provision", "deploy"),
            ),
        ]

    def _worker(self, pool: str, argv: list[str], env: Mapping[str, str]) -> Member:
        def ready() -> bool:
            # A worker of the last `up` may still count as online: only a sign of life since this start counts.
            age = time.monotonic() - self.supervisor.members[pool].started
            return has_worker(self.urls["prefect"], pool, datetime.now(UTC) - timedelta(seconds=age))

        part = Part(pool, argv, ready=ready, log=self.premises.log(pool), env=env, stop_seconds=15, ready_seconds=90)
        return Member(part, after=("deploy",))


def check_ports(ports: Ports) -> None:
    """Raises, naming the port and what to do, when one of them is taken."""
    for name, port in asdict(ports).items():
        if not port_is_free(port):
            raise Unavailable(
                f"port {port}, meant for {PORT_TITLES[name]}, is taken by another program. "
                f"Stop that program, or move all ports: postroom up --ports-from {_free_range(len(PORT_TITLES))}"
            )


def answers(url: str) -> bool:
    """Whether something answers 200 there."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except (OSError, HTTPException):  # the latter: it died in the middle of its answer
        return False


def listens(where: Path) -> bool:
    """Whether a process listens at that socket."""
    with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError), contextlib.chdir(where.parent):
        line.connect(where.name)
        return True
    return False


def has_worker(prefect: str, pool: str, since: datetime) -> bool:
    """Whether a worker of the pool has reported to Prefect since then."""
    request = urllib.request.Request(  # noqa: S310 - our own address
        f"{prefect}/api/work_pools/{pool}/workers/filter", b"{}", {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            workers: list[dict[str, Any]] = json.load(answer)
    except (OSError, HTTPException, ValueError):
        return False
    beats = [datetime.fromisoformat(beat) for worker in workers if (beat := worker["last_heartbeat_time"])]
    return any(beat >= since for beat in beats)


def stop_on_signals(to_stop: asyncio.Event) -> None:
    """Ctrl-C, SIGTERM and a closed terminal all mean: stop in order."""
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signum, to_stop.set)


def _free_range(length: int) -> int:
    for first in range(5200, 60000, 100):
        if all(port_is_free(first + n) for n in range(length)):
            return first
    raise OurFault(f"no {length} free ports in a row on {socket.gethostname()}")
