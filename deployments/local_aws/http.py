"""A request's body and a plain answer, for the parts of the local AWS that are ours."""

from __future__ import annotations

from typing import Any


async def body_of(receive: Any) -> bytes:
    chunks = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


async def reply(
    send: Any, status: int, body: bytes, headers: dict[str, str] | None = None, kind: str = "application/json"
) -> None:
    every = {"content-type": kind, "content-length": str(len(body)), **(headers or {})}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in every.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
