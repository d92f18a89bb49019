"""Calls of git: what they carry, and to whom."""

import subprocess
from collections.abc import Iterator

import pytest

from postroom.settings import settings
from postroom.sites.git import _environment


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("POSTROOM_SITE_GIT_TOKEN", "secret-token")
    monkeypatch.setenv("POSTROOM_SITE_GIT_HOST", "git.example.com:8443")
    settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.cache_clear()


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://git.example.com:8443/garden.git", True),
        ("https://git.example.com/garden.git", False),
        ("https://git.example.com.evil.example:8443/garden.git", False),
        ("https://evil.example/git.example.com:8443/garden.git", False),
    ],
)
@pytest.mark.usefixtures("token")
def test_the_token_goes_to_its_own_host_alone(url: str, sent: bool) -> None:
    asked = subprocess.run(
        ["git", "config", "--get-urlmatch", "http.extraHeader", url], env=_environment(), capture_output=True, cwd="/"
    )
    assert asked.stdout.startswith(b"Authorization: Basic") is sent
