"""The command as people and scripts use it: what it says where, and how it exits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import VERBS, data_first

ROOT = Path(__file__).parents[2]


def postroom(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    away = ("AWS_", "PREFECT_", "POSTROOM_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(away)}
    return subprocess.run(
        [str(Path(sys.executable).parent / "postroom"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**clean, **env},
    )


def test_help_lists_the_verbs_that_are_there() -> None:
    answer = postroom("--help")
    assert answer.returncode == 0
    for verb in ("up", "down", "status", "deploy", "doctor"):
        assert f"  {verb} " in answer.stdout
        assert VERBS[verb][1] in " ".join(answer.stdout.split())


def test_the_module_is_the_command_too() -> None:
    answer = subprocess.run([sys.executable, "-m", "cli.main", "wat"], capture_output=True, text=True, cwd=ROOT)
    assert (answer.returncode, "wat" in answer.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("wat",), 2, "wat"),
        (("status", "--wat"), 2, "--wat"),
        (("up", "--ports-from", "many"), 2, "--ports-from"),
        (("up", "--ports-from", "80"), 2, "between 1024 and"),
        (("status", "--help"), 0, ""),
        (("--version",), 0, ""),
    ],
)
def test_wrong_usage_is_2_and_help_is_0(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    answer = postroom(*arguments, POSTROOM_DATA=str(tmp_path))
    assert answer.returncode == code, answer.stderr
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_wrong_setting_is_named_before_anything_starts(tmp_path: Path) -> None:
    answer = postroom("up", "--data", str(tmp_path / "data"), POSTROOM_SANDBOX="none", POSTROOM_MAX_ATTEMPTS="0")
    assert answer.returncode == 2
    assert "POSTROOM_SANDBOX is 'none'" in answer.stderr
    assert "POSTROOM_MAX_ATTEMPTS is '0'" in answer.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("verb", ["status", "deploy"])
def test_without_a_post_room_a_verb_says_how_to_get_one(verb: str, tmp_path: Path) -> None:
    answer = postroom(verb, "--data", str(tmp_path), PREFECT_PROFILES_PATH=str(tmp_path / "profiles.toml"))
    assert answer.returncode == 69
    assert "no post room runs on" in answer.stderr
    assert "postroom up" in answer.stderr
    assert answer.stdout == ""


def test_down_of_nothing_is_no_error(tmp_path: Path) -> None:
    answer = postroom("down", "--data", str(tmp_path))
    assert answer.returncode == 0
    assert "No post room runs" in answer.stderr


def test_the_doctor_names_what_is_not_well(tmp_path: Path) -> None:
    answer = postroom(
        "doctor",
        "--data",
        str(tmp_path),
        POSTROOM_SLACK_CHANNEL="#post-room",
        POSTROOM_AGENT="claude",
        POSTROOM_PREFFIX="x",
        PREFECT_PROFILES_PATH=str(tmp_path / "profiles.toml"),
        AWS_ENDPOINT_URL="http://127.0.0.1:1",
        AWS_ACCESS_KEY_ID="0",
        AWS_SECRET_ACCESS_KEY="0",
    )
    assert answer.returncode == 69
    for line in ("POSTROOM_PREFFIX is not a setting", "Set POSTROOM_AGENT_TOKEN", "Set both POSTROOM_SLACK_TOKEN"):
        assert line in answer.stdout
    for check in ("aws", "prefect", "slack", "agent"):
        assert f"✗ {check}" in answer.stdout


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (["status", "--data", "x", "--json"], ["--data", "x", "status", "--json"]),
        (["mail", "show", "--data=x", "1"], ["--data=x", "mail", "show", "1"]),
        (["mail", "show", "--", "--data", "x"], ["mail", "show", "--", "--data", "x"]),
        (["status"], ["status"]),
    ],
)
def test_data_may_stand_anywhere(given: list[str], becomes: list[str]) -> None:
    assert data_first(given) == becomes
