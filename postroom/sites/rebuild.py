"""From a version in git to checked pages: export, packages, sandboxed build, check."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.errors import Missing, classify
from postroom.sites.build import Built, build
from postroom.sites.check import check
from postroom.sites.media_lock import Fetch
from postroom.sites.node import install
from postroom.sites.places import Places
from postroom.sites.repository import Repository
from postroom.sites.tree import contents
from postroom.sites.workspace import export

_DECIDE = ("package.json", "package-lock.json", ".npmrc")


def media_of(bucket: str) -> Fetch:
    """What brings a file of a site's media bucket."""

    def fetch(key: str) -> bytes:
        try:
            content: bytes = client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            known = classify(error)
            raise (Missing(f"{key} is not in {bucket}") if isinstance(known, Missing) else known) from error
        return content

    return fetch


async def rebuild(
    repository: Repository,
    version: str,
    places: Places,
    work: Path,
    *,
    on_line: Callable[[str], None] | None = None,
    fetch: Fetch | None = None,
) -> Built:
    """Build one commit (an edit's, or main's head) below `work`; its pages are checked and in `built.dist`.

    Raises BuildFailed when it does not build or may not be deployed. What is installed is always
    decided by main, whatever the commit says.
    """
    source = work / "source"
    await asyncio.to_thread(shutil.rmtree, source, ignore_errors=True)
    node_modules = await asyncio.to_thread(packages, repository, places)
    await asyncio.to_thread(
        export,
        repository,
        repository.tree(version),
        source,
        fetch or media_of(places.media_bucket),
        cache=places.media_cache,
    )
    try:
        built = await build(source, node_modules, work / "dist", on_line=on_line)
    finally:
        await asyncio.to_thread(shutil.rmtree, source, ignore_errors=True)
    found = await asyncio.to_thread(check, built.dist, built)
    found.demand()
    return built


def packages(repository: Repository, places: Places) -> Path:
    """The node_modules of main."""
    main = repository.tree(repository.head())
    wanted = {name: main[name] for name in _DECIDE if name in main}
    return install({path: content for path, _, content in contents(repository.path, wanted)}, places.packages)
