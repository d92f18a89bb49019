"""A caller that hangs up during a long poll gets nothing more: what arrives later is another's, as on AWS.

Without this a sensor that was stopped would still take messages, and hide them for their visibility time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

App = Callable[..., Awaitable[None]]


def is_long_poll(scope: Any) -> bool:
    """Whether the request is SQS's ReceiveMessage (JSON protocol, which every present SDK speaks)."""
    return (b"x-amz-target", b"AmazonSQS.ReceiveMessage") in scope["headers"]


async def answer_while_listened_to(app: App, scope: Any, receive: Any, send: Any) -> None:
    """The app's answer, unless the caller hangs up first."""
    parts: list[Any] = []
    while not parts or parts[-1].get("more_body"):
        parts.append(await receive())
        if parts[-1]["type"] == "http.disconnect":
            return

    async def from_the_start() -> Any:
        return parts.pop(0) if parts else await asyncio.Event().wait()

    async def hung_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answer = asyncio.ensure_future(app(scope, from_the_start, send))
    gone = asyncio.ensure_future(hung_up())
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            answer.result()
    finally:
        gone.cancel()
        answer.cancel()
        await asyncio.wait({answer, gone})
