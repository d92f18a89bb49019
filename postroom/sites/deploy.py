"""Brings a built site into its bucket: only what changed, in an order that never shows a broken page.

    assets      new ones, then changed ones: no page refers to them yet, or any version will do
    pages       new ones, then changed ones: by now everything they refer to is there
    deletions   pages, then assets: by now nothing refers to them

Cut short at any point, what is there works, and the next deploy does the rest: it begins by listing
the bucket, and what has the right hash already is left alone.

Two deploys of one site must not mix. The lease says whose turn it is, `check` asks it before every
request, and every write says what it expects to replace: the listing made under this lease, or
nothing. So a write by a former holder makes ours fail; we look again and, still being the holder,
put ours on top. A single request of a former holder that is under way when the lease changes hands
can't be called back: docs/guarantees.md says what that means.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.errors import BuildFailed, Missing, PostroomError, Unavailable, classify
from postroom.settings import settings
from postroom.sites.content_types import cache_control, content_type, is_page

EDIT_SECONDS, PRODUCTION_SECONDS = 60, 300  # how long a page may be kept by caches
_TRIES = 4
_SOCKET_SECONDS = 10.0
Check = Callable[[], None]
Listing = Mapping[str, str]  # key → MD5 in hex, which is what S3 gives as ETag of one PUT


class Source(Protocol):
    """Files to be deployed: their hashes, and one file's bytes."""

    def listing(self) -> Listing: ...

    def read(self, key: str) -> bytes: ...


@dataclass(frozen=True)
class Deployed:
    """What a deploy did."""

    bucket: str
    uploaded: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: int
    bytes: int
    seconds: float


def _nothing_to_check() -> None:
    return None


def deploy(dist: Path, bucket: str, *, page_seconds: int = EDIT_SECONDS, check: Check = _nothing_to_check) -> Deployed:
    """Make the bucket hold exactly the files of `dist`.

    `check` is called before every request, from several threads, and ends the deploy by raising.
    """
    return _bring(_Directory(dist), bucket, page_seconds, check)


def publish(edit: str, production: str, *, check: Check = _nothing_to_check) -> Deployed:
    """Make the production bucket hold what the edit bucket holds; in the same order, with the same care."""
    return _bring(_Bucket(edit), production, PRODUCTION_SECONDS, check)


def list_bucket(bucket: str) -> dict[str, str]:
    """Every key of a bucket with its hash."""
    s3 = client("s3", read_timeout=_SOCKET_SECONDS)
    found: dict[str, str] = {}
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            found |= {item["Key"]: item["ETag"].strip('"') for item in page.get("Contents", ())}
    except ClientError as error:
        if _status(error) == 404:
            raise Missing(f"there is no bucket {bucket}") from None
        raise classify(error) from error
    return found


def _bring(source: Source, bucket: str, page_seconds: int, check: Check) -> Deployed:
    began = time.monotonic()
    wanted = source.listing()
    if "index.html" not in wanted:  # the last guard before everything else would be deleted
        raise BuildFailed("what is to be deployed has no index.html")
    check()
    there = list_bucket(bucket)
    writer = _Writer(source, bucket, there, page_seconds, check)
    changed = [key for key, hashed in wanted.items() if there.get(key) != hashed]
    gone = [key for key in there if key not in wanted]
    for pages in (False, True):
        for known in (False, True):
            writer.each(writer.put, (key for key in changed if is_page(key) is pages and (key in there) is known))
    for pages in (True, False):
        writer.each(writer.delete, (key for key in gone if is_page(key) is pages))
    same = len(wanted) - len(changed)
    return Deployed(bucket, tuple(sorted(changed)), tuple(sorted(gone)), same, writer.sent, time.monotonic() - began)


class _Directory:
    def __init__(self, root: Path) -> None:
        self.root = root

    def listing(self) -> Listing:
        if not self.root.is_dir():
            raise BuildFailed("there is no built site to deploy")
        found = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_symlink():
                raise BuildFailed(f"{path.relative_to(self.root).as_posix()} is a link")
            if path.is_file():
                found[path.relative_to(self.root).as_posix()] = _md5(path.read_bytes())
        return found

    def read(self, key: str) -> bytes:
        return (self.root / key).read_bytes()


class _Bucket:
    def __init__(self, name: str) -> None:
        self.name = name
        self._listed: Listing = {}

    def listing(self) -> Listing:
        self._listed = list_bucket(self.name)
        if not self._listed:
            raise Missing(f"{self.name} is empty: there is nothing to publish yet")
        return self._listed

    def read(self, key: str) -> bytes:
        s3 = client("s3", read_timeout=_SOCKET_SECONDS)
        try:
            # the very version that was listed: a page of a newer edit would come without its pictures
            content: bytes = s3.get_object(Bucket=self.name, Key=key, IfMatch=self._listed[key])["Body"].read()
        except ClientError as error:
            if _status(error) in (404, 412):
                raise Unavailable(f"{self.name} changed while it was being published") from None
            raise classify(error) from error
        return content


class _Writer:
    """Writes and deletes in one bucket, several at a time, never over something it does not know."""

    def __init__(self, source: Source, bucket: str, there: Listing, page_seconds: int, check: Check) -> None:
        self._source, self._bucket, self._there = source, bucket, dict(there)
        self._page_seconds, self._check = page_seconds, check
        self._s3: Any = client("s3", retries=False, read_timeout=_SOCKET_SECONDS)  # every try asks the lease first
        self._lock = threading.Lock()
        self.sent = 0

    def each(self, act: Callable[[str], None], keys: Iterable[str]) -> None:
        """Do it for all keys, a few at a time, to the end or to the first failure."""
        failed: list[BaseException] = []

        def one(key: str) -> None:
            if failed:
                return
            try:
                act(key)
            except BaseException as error:  # whatever `check` ends the deploy with
                failed.append(error)

        # whoever waits here is the caller: nothing is under way any more when it returns or raises
        with ThreadPoolExecutor(settings().deploy_concurrency, thread_name_prefix="deploy") as pool:
            for key in keys:
                pool.submit(one, key)
        if failed:
            raise failed[0]

    def put(self, key: str) -> None:
        content = self._source.read(key)
        hashed = _md5(content)

        def attempt(known: str | None) -> None:
            condition = {"IfNoneMatch": "*"} if known is None else {"IfMatch": f'"{known}"'}
            self._s3.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=content,
                ContentType=content_type(key),
                CacheControl=cache_control(key, self._page_seconds),
                **condition,
            )
            with self._lock:
                self.sent += len(content)

        self._insist(key, attempt, lambda there: there == hashed)

    def delete(self, key: str) -> None:
        def attempt(known: str | None) -> None:
            if known is not None:
                self._s3.delete_object(Bucket=self._bucket, Key=key, IfMatch=f'"{known}"')

        self._insist(key, attempt, lambda there: there is None)

    def _insist(self, key: str, attempt: Callable[[str | None], None], done: Callable[[str | None], bool]) -> None:
        """Try with what is known to be there; when that was wrong or no answer came, look again."""
        last: PostroomError | None = None
        for number in range(_TRIES):
            try:
                known = self._there.get(key) if number == 0 else self._look(key)
                if number and done(known):  # a write whose answer was lost has still happened
                    return
                self._check()
                attempt(known)
                return
            except Exception as error:
                last = classify(error)
                if not (_is_surprise(error) or last.retryable):
                    raise last from error
            time.sleep(0.1 * 2**number)
        raise Unavailable(f"{self._bucket}/{key} could not be written: {last}") from last

    def _look(self, key: str) -> str | None:
        self._check()
        try:
            etag: str = self._s3.head_object(Bucket=self._bucket, Key=key)["ETag"]
        except ClientError as error:
            if _status(error) == 404:
                return None
            raise classify(error) from error
        return etag.strip('"')


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _is_surprise(error: Exception) -> bool:
    """Is something else there than we expected: changed, made, gone, or being written just now?"""
    if not isinstance(error, ClientError):
        return False
    code = error.response.get("Error", {}).get("Code")
    return _status(error) in (409, 412) or code == "NoSuchKey"


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
