"""The supervisor, with real processes: small web servers that come up, crash and are stopped."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from postroom.errors import Unavailable
from tests.patience import PATIENCE
from workers.house import answers, has_worker
from workers.parts import Part, free_port
from workers.supervisor import Member, Supervisor
from workers.watchman import marked


def web_server(name: str, folder: Path, **kwargs: object) -> Member:
    port = free_port()
    part = Part(
        name,
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)],
        ready=lambda: answers(f"http://127.0.0.1:{port}/"),
        log=folder / "logs" / f"{name}.log",
        ready_seconds=20,
    )
    return Member(part, **kwargs)  # type: ignore[arg-type]


def step(name: str, folder: Path, code: str, **kwargs: object) -> Member:
    part = Part(name, [sys.executable, "-c", code], ready=bool, log=folder / "logs" / f"{name}.log", ready_seconds=20)
    return Member(part, once=True, **kwargs)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.05)


@contextmanager
def says(answer: bytes) -> Iterator[str]:
    """The address of something that gives this answer, once, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_what_dies_while_it_answers_is_not_ready() -> None:
    with says(b"HTT") as url:
        assert not answers(url)
    with says(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[") as url:
        assert not has_worker(url, "light", datetime.now(UTC))


def test_a_worker_that_has_never_reported_is_not_ready() -> None:
    worker = b'[{"last_heartbeat_time": null}]'
    with says(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(worker), worker)) as url:
        assert not has_worker(url, "light", datetime.now(UTC))


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_parts_start_after_those_they_need_and_stop_in_reverse(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    supervisor = Supervisor(
        [
            web_server("second", tmp_path, after=("step",)),
            step("step", tmp_path, "print('hello')", after=("first",)),
            web_server("first", tmp_path),
        ],
        tell=lambda member, _: told.append((member.name, member.state)),
    )
    await supervisor.start()
    pids = [row["pid"] for row in supervisor.rows()]
    await supervisor.stop()

    assert [name for name, state in told if state in ("ready", "done")] == ["first", "step", "second"]
    assert [name for name, state in told if state == "stopped"] == ["second", "first"]
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)
    assert not marked(supervisor.mark)


def test_a_start_may_take_as_long_as_the_longest_row_of_parts_that_need_each_other(tmp_path: Path) -> None:
    parts = [
        web_server("prefect", tmp_path, after=("postgres",)),
        web_server("postgres", tmp_path),
        step("deploy", tmp_path, "", after=("prefect", "aws")),
        web_server("aws", tmp_path),
    ]
    assert Supervisor(parts).longest_start() == 3 * parts[0].part.ready_seconds


async def test_a_part_that_is_killed_is_started_again_and_it_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor([web_server("web", tmp_path)], tell=lambda _, remark: said.append(remark))
    await supervisor.start()
    try:
        first = supervisor.rows()[0]["pid"]
        os.kill(first, signal.SIGKILL)
        await until(lambda: supervisor.rows()[0]["restarts"] == 1 and supervisor.rows()[0]["state"] == "ready")
        assert supervisor.rows()[0]["pid"] != first
        assert any("ended with -9" in remark for remark in said)
    finally:
        await supervisor.stop()


async def test_a_part_that_was_restarted_is_still_stopped_after_those_that_need_it(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    supervisor = Supervisor(
        [web_server("first", tmp_path), web_server("second", tmp_path, after=("first",))],
        tell=lambda member, _: told.append((member.name, member.state)),
    )
    await supervisor.start()
    try:
        os.kill(supervisor.rows()[0]["pid"], signal.SIGKILL)
        await until(lambda: supervisor.rows()[0]["restarts"] == 1 and supervisor.rows()[0]["state"] == "ready")
    finally:
        await supervisor.stop()
    assert [name for name, state in told if state == "stopped"] == ["second", "first"]


async def test_a_part_that_could_not_be_started_again_is_tried_once_more(tmp_path: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor([web_server("web", tmp_path)], tell=lambda _, remark: said.append(remark))
    await supervisor.start()
    log = tmp_path / "logs" / "web.log"
    try:
        log.rename(log.with_suffix(".old"))
        log.mkdir()  # nothing can be written there, so nothing can be started
        os.kill(supervisor.rows()[0]["pid"], signal.SIGKILL)
        await until(lambda: any("Is a directory" in remark for remark in said))
        log.rmdir()
        await until(lambda: supervisor.rows()[0]["state"] == "ready")
    finally:
        await supervisor.stop()


async def test_a_part_is_started_again_although_nobody_can_be_told(tmp_path: Path) -> None:
    def tell(member: Member, _: str) -> None:
        if member.restarts:
            raise OSError("no space left on the board")

    supervisor = Supervisor([web_server("web", tmp_path)], tell=tell)
    await supervisor.start()
    try:
        os.kill(supervisor.rows()[0]["pid"], signal.SIGKILL)
        await until(lambda: supervisor.rows()[0]["restarts"] == 1 and supervisor.rows()[0]["state"] == "ready")
    finally:
        await supervisor.stop()


@pytest.mark.parametrize(("steady", "pauses"), [(0.0, ["0.5", "0.5", "0.5"]), (600.0, ["0.5", "1", "2"])])
async def test_a_part_that_keeps_dying_is_started_more_slowly_and_one_that_was_well_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steady: float, pauses: list[str]
) -> None:
    monkeypatch.setattr("workers.supervisor.STEADY_SECONDS", steady)
    said: list[str] = []
    supervisor = Supervisor([web_server("web", tmp_path)], tell=lambda _, remark: said.append(remark))
    await supervisor.start()
    try:
        for death in range(1, len(pauses) + 1):
            os.kill(supervisor.rows()[0]["pid"], signal.SIGKILL)
            await until(
                lambda n=death: (supervisor.rows()[0]["restarts"], supervisor.rows()[0]["state"]) == (n, "ready")
            )
    finally:
        await supervisor.stop()
    assert [remark.split()[-2] for remark in said if "ended with -9" in remark] == pauses


async def test_a_part_that_does_not_start_is_shown_with_its_last_words_and_nothing_is_left(tmp_path: Path) -> None:
    supervisor = Supervisor(
        [
            web_server("good", tmp_path),
            step("bad", tmp_path, "import sys; sys.exit('the cellar is flooded')", after=("good",), hint="Pump it."),
        ]
    )
    with pytest.raises(Unavailable, match="cellar is flooded") as caught:
        await supervisor.start()
    assert "bad.log" in str(caught.value)
    assert "Pump it." in str(caught.value)
    assert not marked(supervisor.mark)


async def test_a_child_that_left_its_group_is_ended_too(tmp_path: Path) -> None:
    runaway = "import subprocess; print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid)"
    supervisor = Supervisor([step("step", tmp_path, runaway)])
    await supervisor.start()
    pid = int((tmp_path / "logs" / "step.log").read_text())
    assert not is_gone(pid)
    await supervisor.stop()
    assert is_gone(pid)


async def test_parts_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from tests.workers.test_supervisor import Supervisor, web_server

        async def main():
            folder = Path(sys.argv[1])
            supervisor = Supervisor([web_server("web", folder)])
            await supervisor.start()
            print(supervisor.mark, supervisor.rows()[0]["pid"], flush=True)
            await asyncio.sleep(300)

        asyncio.run(main())
        """
    )
    root = Path(__file__).parents[2]
    killed = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert killed.stdout
    mark, pid = (await asyncio.to_thread(killed.stdout.readline)).split()
    assert len(marked(mark)) == 2  # the part and the watchman
    killed.kill()
    killed.wait()
    killed.stdout.close()
    await until(lambda: is_gone(int(pid)) and not marked(mark))
