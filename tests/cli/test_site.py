"""`postroom site` against a real Prefect server and the local AWS."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import cli.site
from postroom.errors import BadInput, Missing
from postroom.settings import settings

Site = Callable[..., Any]


@pytest.fixture
def site(
    prefect_server: str,
    local_aws: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Site]:
    """Runs `postroom site … --json` and gives what it printed."""
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path / "data"))
    settings.cache_clear()

    def run(*words: str) -> Any:
        capsys.readouterr()
        typer.main.get_command(cli.site.app)([*words, "--json"], standalone_mode=False)
        return json.loads(capsys.readouterr().out)

    yield run
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def project() -> str:
    return f"g{uuid.uuid4().hex[:8]}"


def add(site: Site, project: str, user: str = "owner", sender: str = "ann@example.com", *more: str) -> Any:
    return site("add", project, user, "--domain", "example.com", "--sender", sender, *more)


def test_an_added_site_is_listed_and_shown(site, project):
    add(site, project)

    listed = next(one for one in site("list") if one["project"] == project)
    assert (listed["users"], listed["senders"], listed["paused"]) == (["owner"], ["ann@example.com"], False)
    assert f"edit.{project}.example.com" in listed["edit_url"]
    shown = site("show", project)
    assert shown["history"][-1]["subject"] == "The site as it begins"


def test_adding_again_adds_the_speaker_and_the_sender(site, project):
    add(site, project)
    told = add(site, project, "gardener", "*@example.org")
    assert told["users"] == ["gardener", "owner"]
    assert told["senders"] == ["ann@example.com", "*@example.org"]
    assert {step["action"] for step in told["steps"]} == {"unchanged"}


def test_a_dry_run_leaves_no_block(site, project):
    assert add(site, project, "owner", "ann@example.com", "--dry-run")["dry_run"] is True
    with pytest.raises(Missing, match=project):
        site("show", project)


def test_a_site_can_not_be_moved_to_another_domain(site, project):
    add(site, project)
    with pytest.raises(BadInput, match=r"below example\.com"):
        site("add", project, "owner", "--domain", "example.net", "--sender", "a@example.com")


@pytest.mark.parametrize("verb", ["publish", "undo"])
def test_care_of_an_unknown_site_is_refused_and_a_dry_run_asks_for_nothing(site, project, verb):
    with pytest.raises(Missing, match="no site"):
        site(verb, project)
    add(site, project)
    assert site(verb, project, "--dry-run") | {"message_id": ""} == {
        "project": project, "kind": verb, "message_id": "", "dry_run": True, "edit": None,
    }  # fmt: skip
