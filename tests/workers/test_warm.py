"""Runs that are forked from a warm process are as those that Prefect starts itself. Real processes, real signals."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.fixtures.room import until
from workers.engine import WARM

BODY = "tests.workers.warm_body"
ROOT = Path(__file__).parents[2]


@contextmanager
def warm(folder: Path, module: str = BODY) -> Iterator[subprocess.Popen[bytes]]:
    """A warm process that listens in that folder."""
    socket = folder / "warm"
    process = subprocess.Popen([sys.executable, "-m", "workers.warm", str(socket), module], cwd=ROOT)
    try:
        until(socket.exists, 60, "it to listen")
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    deep = tmp_path_factory.mktemp("w") / ("long" * 30)  # longer than the address of a socket may be
    deep.mkdir()
    with warm(deep):
        yield deep


def start(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    """As a worker does it."""
    return subprocess.Popen(
        [sys.executable, "-m", "workers.engine", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), WARM: str(folder / "warm"), **env},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def waiting(folder: Path) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A run that waits, and the process in which it does."""
    run = start(folder, "wait")
    assert run.stdout is not None
    return run, psutil.Process(int(run.stdout.readline()))


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_run_has_the_environment_directory_words_and_output_of_who_asked(folder: Path) -> None:
    run = start(folder, "tell", "one", "two", WORD="ä")
    out, error = run.communicate(timeout=30)
    told = json.loads(out)
    assert (told["argv"], told["cwd"], told["word"]) == (["tell", "one", "two"], str(folder), "ä")
    assert told["pid"] != run.pid
    assert error == "to the other\n"
    assert run.returncode == 0


@pytest.mark.parametrize("code", [0, 1, 70])
def test_who_asked_ends_as_the_run_ends(folder: Path, code: int) -> None:
    assert start(folder, "exit", str(code)).wait(30) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_who_asked_dies_as_the_run_dies(folder: Path, number: int) -> None:
    assert start(folder, "die", str(int(number))).wait(30) == -number


def test_a_signal_is_passed_on(folder: Path) -> None:
    run, _ = waiting(folder)
    run.terminate()
    out, _ = run.communicate(timeout=30)
    assert out == f"heard {int(signal.SIGTERM)}\n"
    assert run.returncode == 7


def test_killing_who_asked_kills_the_run(folder: Path) -> None:
    run, body = waiting(folder)
    run.kill()
    run.wait()
    until(lambda: gone(body), 10, "the run to be gone")


def test_killing_the_warm_process_kills_its_runs_and_the_next_starts_without_it(tmp_path: Path) -> None:
    with warm(tmp_path) as process:
        run, body = waiting(tmp_path)
        process.kill()
        process.wait()
        assert run.wait(10) == -signal.SIGKILL
        until(lambda: gone(body), 10, "the run to be gone")
        cold = start(tmp_path, "not-a-run-id")
        _, said = cold.communicate(timeout=60)
    assert "no warm process" in said
    assert "Invalid flow run id" in said  # the words of Prefect's own engine
    assert cold.returncode == 1


def test_many_at_once_are_all_run(folder: Path) -> None:
    runs = [start(folder, "exit", str(n)) for n in range(20)]
    assert [run.wait(60) for run in runs] == list(range(20))


def test_strangers_who_knock_do_no_harm(folder: Path) -> None:
    import socket

    for words in (b"", b"\xff\xff\xff\xff", b"\0\0\0\2{}"):
        with socket.socket(socket.AF_UNIX) as line:
            here = Path.cwd()
            os.chdir(folder)
            try:
                line.connect("warm")
            finally:
                os.chdir(here)
            line.sendall(words)
    assert start(folder, "exit", "3").wait(30) == 3
