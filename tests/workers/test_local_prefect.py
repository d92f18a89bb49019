"""The local Prefect: a real server on a real Postgres that lives in a data directory."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from prefect import flow, get_client

from postroom.errors import OurFault
from workers import postgres, postgres_binaries
from workers.local_prefect import part, server_environment
from workers.parts import free_port, start


@pytest.fixture
def data() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="postroom-postgres-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(postgres.home(folder).folder, ignore_errors=True)
    shutil.rmtree(folder)


async def ask(data: Path, port: int, query: str) -> object:
    line = await asyncpg.connect(postgres.url(data, port).replace("+asyncpg", ""), timeout=10)
    try:
        return await line.fetchval(query)
    finally:
        await line.close()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_flow_run_is_stored_by_the_server(prefect_server: str) -> None:
    @flow
    async def greet() -> str:
        return "good morning"

    state = await greet(return_state=True)
    async with get_client() as client:
        assert str(client.api_url).rstrip("/") == prefect_server
        stored = await client.read_flow_run(state.state_details.flow_run_id)
    assert stored.state_name == "Completed"


def test_the_ui_is_served_beside_the_api(prefect_server: str) -> None:
    with urllib.request.urlopen(prefect_server.removesuffix("/api") + "/") as answer:
        assert b"<html" in answer.read().lower()


async def test_a_killed_postgres_comes_back_with_every_commit(data: Path) -> None:
    database = postgres.part(data, port := free_port())
    first = start(database)
    try:
        await ask(data, port, "create table letters as select generate_series(1, 500) as n")
        await ask(data, port, "insert into letters values (501)")
    finally:
        first.process.kill()
        first.process.wait()
    lock = postgres.home(data).cluster / "postmaster.pid"
    assert lock.exists(), "a kill leaves the lock file; this is what the next start has to get over"
    lines = lock.read_text().splitlines()
    lock.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")  # the number now belongs to somebody else
    second = start(database)
    try:
        assert await ask(data, port, "select count(*) from letters") == 501
    finally:
        assert second.stop() == 0


async def test_postgres_asks_for_the_password_and_keeps_it_to_itself(data: Path) -> None:
    running = start(postgres.part(data, port := free_port()))
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://{postgres.USER}:guess@127.0.0.1:{port}/postgres")
        assert (data / "postgres.password").stat().st_mode & 0o077 == 0
        assert postgres.home(data).password() not in (data / "logs" / "postgres.log").read_text()
        for setting in ("fsync", "synchronous_commit"):
            assert await ask(data, port, f"show {setting}") == "on"
    finally:
        running.stop()


def test_a_second_postgres_on_the_same_data_says_so(data: Path) -> None:
    running = start(postgres.part(data, free_port()))
    try:
        with pytest.raises(OurFault, match=r"already running|still in use"):
            start(postgres.part(data, free_port()))
    finally:
        running.stop()


def test_a_taken_port_is_named(data: Path) -> None:
    running = start(postgres.part(data, port := free_port()))
    try:
        with pytest.raises(OurFault, match=f"port {port} of 127.0.0.1 is taken"):
            start(part(data, port, port))
    finally:
        running.stop()


def test_postgres_ends_when_its_parent_is_killed(data: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from workers import postgres; from workers.parts import start\n"
        "print(start(postgres.part(Path(sys.argv[1]), int(sys.argv[2]))).process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(data), str(free_port())],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "POSTROOM_END_WITH_PARENT": "1"},
    )
    assert parent.stdout
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


async def test_the_binaries_from_npm_carry_a_cluster_with_pg_trgm(data: Path) -> None:
    binaries = await asyncio.to_thread(postgres_binaries.find, data, system=False)
    where = postgres.home(data)
    postgres.prepare(where, binaries)
    port = free_port()
    if (child := os.fork()) == 0:
        try:
            os.dup2(os.open(data / "embedded.log", os.O_CREAT | os.O_WRONLY, 0o600), 2)
            postgres.become(where, binaries, port)
        finally:
            os._exit(1)
    try:
        deadline = time.monotonic() + 90
        while not postgres.answers(port) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        await ask(data, port, "create extension pg_trgm")
        assert str(await ask(data, port, "show server_version")).startswith("18")
    finally:
        os.kill(child, signal.SIGINT)
        os.waitpid(child, 0)


def test_a_data_directory_closed_to_others_is_not_opened_up(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    where = postgres.home(closed)
    if os.geteuid() == 0:
        assert not where.folder.is_relative_to(closed)
    else:
        assert where.folder == closed / "postgres"
    assert closed.stat().st_mode & 0o077 == 0


def test_only_the_server_is_given_the_database_password(data: Path) -> None:
    described = part(data, 1, 2)
    password = postgres.home(data).password()
    assert password in server_environment(data, 1, 2)["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
    assert password not in " ".join(described.argv) + str(described.env)
