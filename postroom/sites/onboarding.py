"""A new site: its buckets, its repository, and who may speak. Safe to repeat; nothing existing is replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from postroom.aws.provision import provision_site
from postroom.aws.resource import Step
from postroom.errors import BadInput, Missing
from postroom.sites.git import remote_address
from postroom.sites.places import NAME, Places
from postroom.sites.repository import Repository

SAMPLE = Path(__file__).parents[2] / "examples" / "garden"
_SENDER = re.compile(r"(?:\*|[^@\s*<>,;\"]+)@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class Onboarded:
    """A site as it now is; `remote` is what its repository follows, None when ours is the only one."""

    places: Places
    senders: tuple[str, ...]
    remote: str | None
    steps: tuple[Step, ...]


def add_site(
    project: str, user: str, domain: str, senders: Sequence[str], repo: str | None = None, *, dry_run: bool = False
) -> Onboarded:
    """Create what a site needs and does not have yet.

    `repo` is a git repository (https, ssh, or a directory here), which then decides what main is; or
    a directory of plain files to begin with; without it the site begins as the sample site.
    """
    places = Places(project, domain)
    if not NAME.fullmatch(user):
        raise BadInput(f"user {user!r} must be 1-63 characters of a-z, 0-9 and '-', not beginning with '-'")
    allowed = _senders(senders)
    remote, start = _beginning(repo)
    steps = [*provision_site(project, domain, dry_run=dry_run)]
    there = (places.repository / "HEAD").is_file()
    if there:
        Repository(places.repository, remote)
    elif not dry_run:
        places.repository.parent.mkdir(parents=True, exist_ok=True)
        Repository.create(places.repository, start, remote=remote)
    steps.append(Step("repository", str(places.repository), "unchanged" if there else "create"))
    return Onboarded(places, allowed, remote, tuple(steps))


def _senders(senders: Sequence[str]) -> tuple[str, ...]:
    """Addresses, or `*@domain` for everybody there; domains in lower case, each once."""
    if not senders:
        raise BadInput("a site needs at least one sender who may change it")
    found = []
    for sender in senders:
        if not _SENDER.fullmatch(sender.strip()):
            raise BadInput(f"sender {sender!r} is neither a mail address nor *@domain")
        name, _, domain = sender.strip().rpartition("@")
        found.append(f"{name}@{domain.lower()}")
    return tuple(dict.fromkeys(found))


def _beginning(repo: str | None) -> tuple[str | None, Path | None]:
    """What the repository follows, and the files it begins with."""
    if repo is None:
        if not (SAMPLE / "package.json").is_file():
            raise Missing("the sample site is not installed here: name a repository with --repo")
        return None, SAMPLE
    path = Path(repo).expanduser()
    if "://" not in repo and path.is_dir() and not (path / "HEAD").is_file() and not (path / ".git").exists():
        if not (path / "package.json").is_file():
            raise BadInput(f"{repo!r} is neither a git repository nor a site (it has no package.json)")
        return None, path
    return remote_address(repo), None
