"""`postroom up` as a person runs it: the whole post room, on ports of its own, in a directory of its own."""

import json
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.fixtures.room import OnlyRoom, Room, call, opened, until

PARTS = {"aws", "postgres", "prefect", "light", "heavy", "warm", "sensor"}


@pytest.fixture
def room(only_room: OnlyRoom) -> Iterator[Room]:
    only_room.close()
    with opened() as room:
        yield room


def run_health_check(api: str, pool: str) -> None:
    """A run through server, pool and worker to the local AWS and back."""
    deployment = call(f"{api}/deployments/name/health-check/health-check")
    if pool != deployment["work_pool_name"]:
        same = ("flow_id", "entrypoint", "parameter_openapi_schema")
        other = {"name": f"on-{pool}", "work_pool_name": pool, **{field: deployment[field] for field in same}}
        deployment = call(f"{api}/deployments/", other)
    run = call(f"{api}/deployments/{deployment['id']}/create_flow_run", {})

    def is_over() -> bool:
        state = call(f"{api}/flow_runs/{run['id']}")["state"]
        assert state["type"] not in ("FAILED", "CRASHED", "CANCELLED"), state
        return bool(state["type"] == "COMPLETED")

    until(is_over, 60, f"the health check's run on {pool}")


@pytest.mark.timeout(1800)
def test_up_runs_everything_survives_a_crash_and_comes_back_with_what_it_knew(room: Room) -> None:
    started = room.up()
    assert started.returncode == 0, started.stderr
    assert f"http://127.0.0.1:{room.first_port}" in started.stderr
    assert "postroom down" in started.stderr

    status = room.status()
    assert {part["name"] for part in status["processes"]} == PARTS
    assert {part["state"] for part in status["processes"]} == {"ready"}
    assert status["queues"]["postroom-mail"] == {"waiting": 0, "in_flight": 0, "dead": 0}
    api = f"{status['prefect']}/api"
    run_health_check(api, "light")
    run_health_check(api, "heavy")

    second = room("up")
    assert second.returncode == 0
    assert "already runs" in second.stderr

    sensor = next(part for part in status["processes"] if part["name"] == "sensor")
    os.kill(sensor["pid"], signal.SIGKILL)

    def is_back() -> bool:
        told = json.loads((room.data / "house.json").read_text())
        part = next(part for part in told["processes"] if part["name"] == "sensor")
        return bool(part["state"] == "ready" and part["pid"] != sensor["pid"] and part["restarts"] == 1)

    until(is_back, 60, "the sensor's return")
    assert "starting it again" in (room.data / "logs" / "house.log").read_text()

    closed = room("down")
    assert closed.returncode == 0, closed.stderr
    assert room.left() == []
    assert room("status").returncode == 69

    again = room.up()
    assert again.returncode == 0, again.stderr
    assert call(f"{api}/flow_runs/count", {}) >= 1  # the run of before
    house = json.loads((room.data / "house.json").read_text())["pid"]
    os.kill(house, signal.SIGKILL)
    until(lambda: not room.left(), 30, "the end of all parts after kill -9 of `up`")
    assert room("status").returncode == 69


def test_a_taken_port_is_named_before_anything_starts(room: Room) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", room.first_port + 1))
        taken.listen()
        answer = room.up()
    assert answer.returncode == 69
    assert f"port {room.first_port + 1}, meant for the local AWS, is taken" in answer.stderr
    assert "--ports-from" in answer.stderr
    assert not (room.data / "house.json").exists()
