"""The data directory of a local post room, and what surrounds its processes."""

import os
from pathlib import Path

import pytest

from postroom.errors import BadInput, Misconfigured
from workers.premises import Ports, Premises, addresses, environment, forget_foreign, ports_of, shorten


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    premises = Premises(tmp_path / "data")
    premises.prepare()
    return premises


def test_only_one_may_run_a_post_room(premises: Premises) -> None:
    assert not premises.is_running()
    lock = premises.lock()
    assert lock is not None
    assert premises.is_running()
    assert premises.lock() is None
    os.close(lock)
    assert not premises.is_running()


def test_a_state_that_was_left_behind_does_not_count_as_running(premises: Premises) -> None:
    premises.write_state({"pid": os.getpid(), "ready": True})
    assert premises.state()["ready"]
    assert not premises.is_running()


def test_a_broken_state_is_named(premises: Premises) -> None:
    premises.state_file.write_text("{")
    with pytest.raises(BadInput, match=r"house\.json is not readable"):
        premises.state()


def test_a_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="can't be made"):
        Premises(tmp_path / "file" / "data").prepare()


def test_ports_move_together_and_are_found_again() -> None:
    ports = Ports.starting_at(5300)
    assert sorted(vars(ports).values()) == [5300, 5301, 5302, 5303]
    assert ports_of({"ports": vars(ports)}) == ports
    assert ports_of({}) == Ports()
    with pytest.raises(Misconfigured, match="between 1024 and"):
        Ports.starting_at(65535)


def test_processes_see_the_local_post_room_and_nobody_elses_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    foreign = {
        "AWS_PROFILE": "company",
        "AWS_SESSION_TOKEN": "secret",
        "AWS_ENDPOINT_URL_SQS": "https://sqs.example.com",
        "PREFECT_API_KEY": "secret",
        "PREFECT_PROFILE": "cloud",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "DEBUG")
    monkeypatch.setenv("no_proxy", "example.com")
    before = dict(os.environ)
    try:
        forget_foreign()
        os.environ.update(environment(tmp_path, addresses(Ports())))
        assert not set(foreign) & set(os.environ)
        assert os.environ["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"
        assert os.environ["PREFECT_LOGGING_LEVEL"] == "DEBUG"
        assert os.environ["NO_PROXY"] == "example.com,127.0.0.1,localhost"
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_long_log_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_bytes(b"a" * 100 + b"b" * 50)
    with log.open("ab") as writer:
        shorten(log, 50)
        writer.write(b"c")
    assert (tmp_path / "part.log.1").read_bytes() == b"b" * 50
    assert log.read_bytes() == b"c"
