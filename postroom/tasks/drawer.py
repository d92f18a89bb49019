"""The tasks' bucket as a drawer of JSON documents with conditional writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.errors import Unavailable, classify
from postroom.settings import settings

_GONE = {"NoSuchKey", "404", "NotFound"}
_TRIES = 5


class Changed(Exception):
    """Somebody else has written it meanwhile (or it is there already)."""


class Drawer:
    """Objects of one bucket. Errors are ours."""

    def __init__(self, s3: Any = None, bucket: str | None = None) -> None:
        self._s3 = s3 if s3 is not None else client("s3")
        self.bucket = bucket or Names(settings().prefix).tasks_bucket

    def place(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def find(self, key: str) -> tuple[Any, str] | None:
        """The document and its ETag; None when there is none."""
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key)
            return json.loads(answer["Body"].read()), str(answer["ETag"])
        except ClientError as error:
            if str(error.response.get("Error", {}).get("Code", "")) in _GONE:
                return None
            raise classify(error) from error
        except Exception as error:
            raise classify(error) from error

    def put(self, key: str, document: Any, *, tag: str | None = None) -> None:
        """Written if it was not there, or with `tag` if it is still that one; else Changed."""
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        body = json.dumps(document, ensure_ascii=False, indent=1).encode()
        for _ in range(_TRIES):
            try:
                self._s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType="application/json", **condition)
                return
            except ClientError as error:
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status in (404, 412):
                    raise Changed(key) from None
                if status != 409:  # 409: another writer is at it right now
                    raise classify(error) from error
            except Exception as error:
                raise classify(error) from error
        raise Unavailable(f"{key} is being written by others all the time")

    def store(self, key: str, body: bytes, kind: str) -> str:
        """Written whatever was there; where it lies."""
        try:
            self._s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=kind)
        except Exception as error:
            raise classify(error) from error
        return self.place(key)

    def delete(self, key: str) -> None:
        try:
            self._s3.delete_object(Bucket=self.bucket, Key=key)
        except Exception as error:
            raise classify(error) from error

    def names(self, prefix: str) -> Iterator[str]:
        """Keys below a prefix, page by page."""
        try:
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                for item in page.get("Contents", []):
                    yield str(item["Key"])
        except Exception as error:
            raise classify(error) from error
