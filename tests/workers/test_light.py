"""The light worker as a process of its own, against a real server."""

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.states import Scheduled

from tests.workers.staff import ask, cancel, deploy, end_of, make_pool, noted, notes, ready, until, worker
from workers.beats import HEARTBEAT_SECONDS
from workers.light_worker import LightWorker


@pytest.fixture(scope="module")
async def light(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The name of a pool that a light worker serves."""
    pool = f"light-{uuid.uuid4().hex[:6]}"
    log = tmp_path_factory.mktemp("light") / "worker.log"
    with worker("light", pool, log, "--name", "anna", POSTROOM_LIGHT_CANCEL_SECONDS="2") as process:
        await ready(pool)
        yield pool
        assert process.poll() is None, log.read_text()[-3000:]


@pytest.fixture(scope="module")
def anna(light: str) -> psutil.Process:
    """The process of the worker that serves the pool."""
    mine = psutil.Process().children(recursive=True)
    return next(each for each in mine if light in each.cmdline() and "workers.light" in each.cmdline())


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "book"


@pytest.mark.parametrize("flow", ["greet", "greet_sync"])
async def test_a_run_is_carried_out_soon_after_it_is_asked_for(light: str, book: Path, flow: str) -> None:
    deployment = await deploy(flow, light)
    await end_of(await ask(deployment, path=str(book), who="first"))  # the flow is loaded now
    asked = time.time()
    run = await end_of(await ask(deployment, path=str(book), who="ada"))
    assert run.state_name == "Completed"
    assert notes(book)["greet-ada"] - asked < 2  # announced: a poll would come after up to ten seconds


async def test_the_worker_is_seen_by_its_name(light: str) -> None:
    async with get_client() as client:
        (seen,) = await client.read_workers_for_work_pool(light)
    assert (seen.name, seen.status.value) == ("anna", "ONLINE")
    assert seen.last_heartbeat_time


@pytest.mark.parametrize("flow", ["wait", "wait_sync"])
async def test_a_cancelled_body_hears_of_it_within_a_second(light: str, book: Path, flow: str) -> None:
    run = await ask(await deploy(flow, light), path=str(book))
    await noted(book, "began")
    told = time.time()
    await cancel(run)
    ended = await end_of(run, 10)
    assert ended.state_name == "Cancelled"
    assert notes(book)["interrupted"] - told < 1
    assert "slept" not in notes(book)
    if flow == "wait":
        assert "hook" in notes(book)


async def test_a_cancelled_body_has_time_to_tidy_up(light: str, book: Path) -> None:
    run = await ask(await deploy("tidy_up", light), path=str(book))
    await noted(book, "began")
    await cancel(run)
    assert (await end_of(run, 10)).state_name == "Cancelled"
    assert "tidy" in notes(book)


async def test_an_announcement_that_can_not_be_followed_makes_nobody_deaf(
    prefect_server: str, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, heard = f"light-{uuid.uuid4().hex[:6]}", []

    def stumble(_: LightWorker) -> None:
        heard.append("something")
        raise OSError("the line is bad")

    monkeypatch.setattr(LightWorker, "nudge", stumble)
    await make_pool(pool, "light")
    async with LightWorker(work_pool_name=pool):

        async def connected() -> bool:
            return len(heard) > 0

        async def announced() -> bool:
            return len(heard) > 1

        await until(connected, "the line")
        await ask(await deploy("greet", pool), path=str(book))
        await until(announced, "the run")


async def test_a_body_that_does_not_let_go_is_left_behind(light: str, book: Path) -> None:
    run = await ask(await deploy("deaf", light), path=str(book), seconds=4)
    await noted(book, "began")
    await cancel(run)
    ended = await end_of(run, 5)
    assert ended.state_name == "Cancelled"
    assert "did not let go" in (ended.state.message or "")
    await noted(book, "let-go", 10)
    assert "went-on" not in notes(book), "what could be stopped after the long call was stopped"
    again = await end_of(await ask(await deploy("greet", light), path=str(book)))
    assert again.state_name == "Completed"

    async def stays() -> bool:
        async with get_client() as client:
            return (await client.read_flow_run(run.id)).state_name == "Cancelled"

    await asyncio.sleep(0.3)  # time for the straggler's own report, which must not count
    assert await stays()


async def test_a_body_that_blocks_its_thread_holds_up_nobody(light: str, book: Path, tmp_path: Path) -> None:
    blocked = await ask(await deploy("blocking", light), path=str(book), seconds=4)
    await noted(book, "began")
    other = tmp_path / "other"
    waiting = await ask(await deploy("wait", light), path=str(other))
    await noted(other, "began", 2)
    told = time.time()
    await cancel(waiting)
    assert await noted(other, "interrupted", 2) - told < 1
    assert "slept" not in notes(book), "all that happened while the other body blocked"
    assert (await end_of(waiting)).state_name == "Cancelled"
    assert (await end_of(blocked)).state_name == "Completed"


async def test_a_run_cancelled_before_it_is_due_never_begins(light: str, book: Path) -> None:
    run = await ask(await deploy("greet", light), at=datetime.now(UTC) + timedelta(seconds=1.5), path=str(book))
    await cancel(run)
    ended = await end_of(run)
    assert ended.state_type.value == "CANCELLED"
    await asyncio.sleep(1.6)  # past its time
    assert not notes(book)


async def test_a_run_for_later_begins_at_its_time(light: str, book: Path) -> None:
    at = datetime.now(UTC) + timedelta(seconds=1.5)
    await ask(await deploy("greet", light), at=at, path=str(book))
    began = await noted(book, "greet-nobody")
    assert 0 <= began - at.timestamp() < 1.5


async def test_a_run_beats_as_often_as_the_silence_watch_expects(light: str, book: Path) -> None:
    await end_of(await ask(await deploy("beat", light), path=str(book)))
    assert set(notes(book)) == {f"every-{HEARTBEAT_SECONDS}"}


async def test_a_new_attempt_of_a_run_begins_at_once(light: str, book: Path) -> None:
    run = await end_of(await ask(await deploy("greet", light), path=str(book)))
    book.unlink()
    told = time.time()
    async with get_client() as client:
        await client.set_flow_run_state(run.id, Scheduled(name="Rescheduled"), force=True)
    assert await noted(book, "greet-nobody") - told < 2


async def test_a_flow_that_is_not_there_crashes_its_run_with_the_reason(light: str, book: Path) -> None:
    run = await ask(await deploy("greet", light, entrypoint="light_flows.py:nowhere"), path=str(book))
    ended = await end_of(run)
    assert ended.state_type.value == "CRASHED"
    assert "nowhere" in (ended.state.message or "")


@pytest.mark.parametrize("last_words", ["raise RuntimeError('torn, password=hunter2hunter2')", "raise SystemExit(4)"])
async def test_code_that_can_not_be_imported_fails_its_own_run_only(
    light: str, anna: psutil.Process, book: Path, tmp_path: Path, last_words: str
) -> None:
    (tmp_path / "broken.py").write_text(f"{last_words}\n")
    broken = await deploy("greet", light, entrypoint="broken.py:greet", path=str(tmp_path))
    crashed, fine = await ask(broken, path=str(book)), await ask(await deploy("greet", light), path=str(book))
    ended = await end_of(crashed)
    assert ended.state_type.value == "CRASHED"
    assert ("torn" if "torn" in last_words else "SystemExit") in (ended.state.message or "")
    assert "hunter2" not in (ended.state.message or "")
    assert (await end_of(fine)).state_name == "Completed"
    assert anna.is_running()


async def test_many_runs_leave_nothing_behind_in_the_worker(light: str, anna: psutil.Process, book: Path) -> None:
    deployment = await deploy("greet", light)

    async def many(number: int = 40) -> tuple[int, int, float]:
        for run in [await ask(deployment, path=str(book)) for _ in range(number)]:
            assert (await end_of(run, 60)).state_name == "Completed"
        return anna.num_fds(), anna.num_threads(), anna.memory_info().rss / 2**20

    files, threads, megabytes = await many()  # by now each desk has been opened that is needed
    files_then, threads_then, megabytes_then = await many()
    assert files_then <= files + 12  # a run that left one open would add forty
    assert threads_then <= threads + 8
    assert megabytes_then < megabytes + 20


async def test_a_new_entrypoint_is_loaded_without_a_restart(light: str, book: Path) -> None:
    deployment = await deploy("greet", light)
    await end_of(await ask(deployment, path=str(book), who="before"))
    async with get_client() as client:
        from prefect.client.schemas.actions import DeploymentUpdate

        await client.update_deployment(deployment, DeploymentUpdate(entrypoint="light_flows.py:fail"))

    async def fails() -> bool:
        return (await end_of(await ask(deployment, path=str(book)))).state_name == "Failed"

    await until(fails, "the new entrypoint")


async def test_a_stopped_worker_hands_its_runs_back(prefect_server: str, book: Path, tmp_path: Path) -> None:
    pool = f"light-{uuid.uuid4().hex[:6]}"
    log = tmp_path / "log"
    with worker("light", pool, log, POSTROOM_LIGHT_GRACE_SECONDS="1") as first:
        await ready(pool)
        kept, done = tmp_path / "kept", tmp_path / "done"
        long = await ask(await deploy("wait", pool), path=str(kept), seconds=30)
        stuck = await ask(await deploy("deaf", pool), path=str(book), seconds=30)
        short = await ask(await deploy("wait", pool), path=str(done), seconds=0.8)
        for each in (kept, book, done):
            await noted(each, "began")
        began = time.monotonic()
        first.send_signal(signal.SIGTERM)
        await asyncio.to_thread(first.wait, 12)
        assert time.monotonic() - began < 10
    async with get_client() as client:
        wanted = FlowRunFilter(id=FlowRunFilterId(any_=[long.id, stuck.id, short.id]))
        states = {run.id: run.state_name for run in await client.read_flow_runs(flow_run_filter=wanted)}
    assert states == {long.id: "AwaitingRetry", stuck.id: "AwaitingRetry", short.id: "Completed"}, log.read_text()
    assert "interrupted" in notes(kept)


async def test_two_workers_share_a_pool_and_their_limits(prefect_server: str, tmp_path: Path) -> None:
    pool = f"light-{uuid.uuid4().hex[:6]}"
    with (
        worker("light", pool, tmp_path / "a.log", "--name", "a", "--limit", "2"),
        worker("light", pool, tmp_path / "b.log", "--name", "b", "--limit", "2"),
    ):
        await ready(pool, workers=2)
        deployment = await deploy("wait", pool)
        books = [tmp_path / f"book-{n}" for n in range(10)]
        runs = [await ask(deployment, path=str(each), seconds=1) for each in books]
        ended = [await end_of(run, 30) for run in runs]
    assert {run.state_name for run in ended} == {"Completed"}
    assert all(len(each.read_text().splitlines()) == 2 for each in books), "each body ran once"
    spans = [(notes(each)["began"], notes(each)["slept"]) for each in books]
    assert max(sum(b <= moment < e for b, e in spans) for moment, _ in spans) <= 4


async def test_prefects_own_command_starts_it(prefect_server: str, book: Path, tmp_path: Path) -> None:
    pool = f"light-{uuid.uuid4().hex[:6]}"
    await make_pool(pool, "light")
    log = tmp_path / "log"
    with worker("light", pool, log, "--name", "bert", prefects_command=True) as process:
        await ready(pool)
        run = await ask(await deploy("wait", pool), path=str(book), seconds=30)
        await noted(book, "began")
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 120)
    async with get_client() as client:
        assert (await client.read_flow_run(run.id)).state_name == "AwaitingRetry", log.read_text()
