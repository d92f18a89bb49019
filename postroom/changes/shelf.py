"""Objects of the change bucket, written only on a condition: nobody's words are lost."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.resource import code_of
from postroom.errors import Missing, Unavailable, Unparsable, classify

ABSENT = {"NoSuchKey", "404", "NotFound"}
LOST = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}  # somebody was quicker
PATIENCE_SECONDS = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0


@dataclass(frozen=True)
class Kept:
    """An object as it was read; `etag` is the condition for writing over it."""

    document: dict[str, Any]
    etag: str
    version_id: str | None


class Taken(Exception):
    """The condition did not hold: somebody else has written meanwhile."""


class Shelf:
    """JSON documents by key."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self.s3, self.bucket = s3, bucket

    def find(self, key: str, version_id: str | None = None) -> Kept | None:
        which = {"VersionId": version_id} if version_id else {}
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=key, **which)
            body = answer["Body"].read()
        except ClientError as error:
            if code_of(error) in ABSENT | {"NoSuchVersion"}:
                return None
            raise classify(error) from error
        try:
            document = json.loads(body)
            if not isinstance(document, dict):
                raise ValueError
        except ValueError:
            raise Unparsable(f"{key} in {self.bucket} is no JSON object") from None
        return Kept(document, answer["ETag"], answer.get("VersionId"))

    def read(self, key: str) -> Kept:
        found = self.find(key)
        if found is None:
            raise Missing(f"there is no {key} in {self.bucket}")
        return found

    def tag(self, key: str) -> str | None:
        """The ETag of an object; None when there is none."""
        try:
            return str(self.s3.head_object(Bucket=self.bucket, Key=key)["ETag"])
        except ClientError as error:
            if code_of(error) in ABSENT:
                return None
            raise classify(error) from error

    def write(self, key: str, document: Mapping[str, Any], *, over: str | None, always: bool = False) -> Kept:
        """The document as stored, over the object with that ETag (None: where nothing is yet); Taken otherwise."""
        condition = {} if always else {"IfMatch": over} if over else {"IfNoneMatch": "*"}
        body = json.dumps(document, ensure_ascii=False, indent=1).encode()
        try:
            answer = self.s3.put_object(
                Bucket=self.bucket, Key=key, Body=body, ContentType="application/json", **condition
            )
        except ClientError as error:
            if code_of(error) in LOST or (over and code_of(error) in ABSENT):
                raise Taken(key) from None
            raise classify(error) from error
        return Kept(dict(document), answer["ETag"], answer.get("VersionId"))

    def remove(self, key: str, *, only: str) -> bool:
        """Take away the object with that ETag; False when another is there now."""
        try:
            self.s3.delete_object(Bucket=self.bucket, Key=key, IfMatch=only)
        except ClientError as error:
            if code_of(error) in LOST:
                return False
            if code_of(error) in ABSENT:
                return True
            raise classify(error) from error
        return True

    def alter(self, key: str, change: Callable[[Kept | None], Mapping[str, Any] | None]) -> Kept | None:
        """What stands there after `change` was applied to what stood there; read again whenever it was overtaken.

        `change` gives None when there is nothing to write.
        """
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, FIRST_PAUSE
        while True:
            found = self.find(key)
            document = change(found)
            if document is None:
                return found
            try:
                return self.write(key, document, over=found.etag if found else None)
            except Taken:
                if time.monotonic() > deadline:
                    raise Unavailable(f"{key} is written to by too many at once") from None
            time.sleep(random.uniform(0, pause))  # noqa: S311 - full jitter, no secret
            pause = min(LONGEST_PAUSE, pause * 2)


class Rehearsal(Shelf):
    """A shelf on which everything is checked and nothing is written; it remembers what would be."""

    def __init__(self, s3: Any, bucket: str) -> None:
        super().__init__(s3, bucket)
        self.would: list[str] = []

    def write(self, key: str, document: Mapping[str, Any], *, over: str | None, always: bool = False) -> Kept:
        self.would.append(f"write {key}")
        return Kept(dict(document), over or "", None)

    def remove(self, key: str, *, only: str) -> bool:
        self.would.append(f"remove {key}")
        return True
