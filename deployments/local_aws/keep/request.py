"""Which service and action an HTTP request is for, as far as keeping its effects needs to know."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_SCOPE = re.compile(rb"Credential=[^/]+/\d+/[^/]+/([a-z0-9-]+)/aws4_request")
_NAMES = ("TableName", "QueueName", "QueueUrl")


@dataclass
class Request:
    """One request. `action` is empty where the protocol does not say it in a header."""

    service: str
    action: str
    method: str
    path: str
    query: str
    host: str = ""
    chunks: list[bytes] = field(default_factory=list)

    @property
    def bucket(self) -> str:
        """The bucket that the path names; empty when the host may name it instead."""
        return self.path.lstrip("/").split("/", 1)[0] if self.host[:1].isdigit() else ""

    @property
    def of_object(self) -> bool:
        return bool(self.bucket) and "/" in self.path.strip("/")

    def names(self) -> str:
        """The table or queue that the body names, or nothing."""
        try:
            body = json.loads(b"".join(self.chunks) or b"{}")
        except ValueError:
            return ""
        name = next((str(body[name]) for name in _NAMES if name in body), "")
        return name.rstrip("/").rsplit("/", 1)[-1]


def recognise(scope: Any) -> Request:
    service, action, host = "s3", "", ""  # what is not signed in a header is a presigned S3 URL
    for name, value in scope["headers"]:
        if name == b"authorization":
            found = _SCOPE.search(value)
            if found:
                service = found[1].decode()
        elif name == b"x-amz-target":
            action = value.decode("latin-1").rsplit(".", 1)[-1]
        elif name == b"host":
            host = value.decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    return Request(service, action, scope["method"], scope["path"], query, host)
