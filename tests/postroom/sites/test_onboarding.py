"""A new site on the local AWS."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.aws.clients import client
from postroom.errors import BadInput
from postroom.settings import settings
from postroom.sites.onboarding import add_site
from postroom.sites.repository import Repository


@pytest.fixture
def project(local_aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path / "data"))
    settings.cache_clear()
    yield f"g{uuid.uuid4().hex[:8]}"
    monkeypatch.undo()
    settings.cache_clear()


def actions(done) -> list[str]:
    return [step.action for step in done.steps]


def test_a_new_site_has_three_closed_buckets_and_a_repository_with_the_sample_site(project):
    done = add_site(project, "owner", "example.com", ["Ann@Example.COM", "*@example.org", "Ann@example.com"])

    assert actions(done) == ["create"] * 4
    assert done.senders == ("Ann@example.com", "*@example.org")
    for name in (f"media-source.{project}.example.com", f"edit.{project}.example.com", f"{project}.example.com"):
        closed = client("s3").get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
        assert set(closed.values()) == {True}
    repository = Repository(done.places.repository)
    assert {"package-lock.json", "src/data/news.json"} <= set(repository.tree(repository.head()))


def test_adding_it_again_changes_nothing(project):
    first = add_site(project, "owner", "example.com", ["ann@example.com"])
    head = Repository(first.places.repository).head()
    again = add_site(project, "owner", "example.com", ["ann@example.com"])
    assert actions(again) == ["unchanged"] * 4
    assert Repository(again.places.repository).head() == head


def test_a_dry_run_makes_nothing(project):
    done = add_site(project, "owner", "example.com", ["ann@example.com"], dry_run=True)
    assert actions(done) == ["create"] * 4
    assert not done.places.repository.exists()
    assert f"edit.{project}.example.com" not in [b["Name"] for b in client("s3").list_buckets()["Buckets"]]


def test_a_site_may_begin_from_a_directory_or_follow_a_repository(project, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/package.json").write_text('{"name": "mine"}')
    begun = add_site(project, "owner", "example.com", ["a@example.com"], str(tmp_path / "mine"))
    assert begun.remote is None
    assert set(Repository(begun.places.repository).tree(Repository(begun.places.repository).head())) == {"package.json"}

    bare = tmp_path / "theirs.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(begun.places.repository), str(bare)], check=True, timeout=30)
    follows = add_site(f"{project}-2", "owner", "example.com", ["a@example.com"], str(bare))
    assert follows.remote == str(bare)
    assert Repository(follows.places.repository).head() == Repository(bare).head()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"project": "Garden"}, "project 'Garden'"),
        ({"user": "-x"}, "user '-x'"),
        ({"domain": "not a domain"}, "domain 'not a domain'"),
        ({"senders": []}, "at least one sender"),
        ({"senders": ["everybody"]}, "sender 'everybody'"),
        ({"senders": ["*@*"]}, r"sender '\*@\*'"),
        ({"repo": "ext::sh -c id"}, "not a repository"),
        ({"repo": "/etc"}, "neither a git repository nor a site"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_made(project, wrong, said):
    right = {"project": project, "user": "owner", "domain": "example.com", "senders": ["a@example.com"], "repo": None}
    with pytest.raises(BadInput, match=said):
        add_site(**{**right, **wrong})
    assert f"edit.{project}.example.com" not in [b["Name"] for b in client("s3").list_buckets()["Buckets"]]
