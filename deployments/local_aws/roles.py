"""A role must exist to be assumed, as in AWS; ministack asks that only when it checks every signature."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from ministack.services import iam, sts

_DENIED = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>AccessDenied</Code><Message>User is not authorized to perform: sts:AssumeRole on resource: {}</Message>"
    "</Error></ErrorResponse>"
)


def install() -> None:
    answer = sts.handle_request

    async def checked(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
        asked = parse_qs(body.decode("utf-8", "replace"))
        if asked.get("Action") == ["AssumeRole"] and not _exists(role := asked.get("RoleArn", [""])[0]):
            safe = role.replace("&", "&amp;").replace("<", "&lt;")
            return 403, {"Content-Type": "text/xml"}, _DENIED.format(safe).encode()
        return await answer(method, path, headers, body, query)

    sts.handle_request = checked


def _exists(arn: str) -> bool:
    parts = arn.split(":")
    if len(parts) < 6:
        return True  # not an ARN: ministack names what is wrong with it
    return iam._roles.get_scoped(parts[4], None, arn.rsplit("/", 1)[-1]) is not None
