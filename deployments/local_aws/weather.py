"""Bad weather on order: for a while the local AWS is unwell, so that one can see what the post room makes of it.

PUT /_postroom/weather  {"kind": …, "seconds": …, "share": …, "service": …}

    refusing   500 before anything is done
    forgetful  the request is carried out, and answered with 500
    silent     no answer while it lasts; the request is carried out afterwards, whether its caller still waits or not
    clear      good weather, at once

`share` of the requests are hit (1 unless told), chosen by chance; `service` limits it to one (dynamodb, s3, sqs, ses…).
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Any

from deployments.local_aws.http import reply

KINDS = ("refusing", "forgetful", "silent", "clear")
LONGEST_SECONDS = 600.0
_TROUBLE = json.dumps({"__type": "InternalServerError", "message": "bad weather, as ordered"}).encode()
_XML = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code>'
    b"<Message>bad weather, as ordered</Message></Error>"
)


@dataclass(frozen=True)
class Weather:
    kind: str = "clear"
    until: float = 0.0
    share: float = 1.0
    service: str | None = None

    @classmethod
    def ordered(cls, wish: Any) -> Weather:
        """From the request's JSON; ValueError says what is wrong with it."""
        if not isinstance(wish, dict) or wish.get("kind") not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}")
        seconds, share = float(wish.get("seconds", 10)), float(wish.get("share", 1))
        if not 0 < seconds <= LONGEST_SECONDS or not 0 < share <= 1:
            raise ValueError(f"seconds must be above 0 and at most {LONGEST_SECONDS:g}, share above 0 and at most 1")
        return cls(wish["kind"], time.monotonic() + seconds, share, wish.get("service"))

    def hits(self, scope: Any) -> bool:
        if self.kind == "clear" or time.monotonic() >= self.until:
            return False
        if self.service is not None and service_of(scope) != self.service:
            return False
        return random.random() < self.share  # noqa: S311 - chance, not secrecy


def service_of(scope: Any) -> str | None:
    """The service that a request is signed for."""
    for name, value in scope["headers"]:
        if name == b"authorization" and b"Credential=" in value:
            parts = value.partition(b"Credential=")[2].split(b"/")
            return parts[3].decode("latin-1") if len(parts) > 3 else None
    return None


async def endure(weather: Weather, app: Any, scope: Any, receive: Any, send: Any) -> None:
    """The app's answer as the weather lets it through."""
    match weather.kind:
        case "silent":
            await asyncio.sleep(max(0.0, weather.until - time.monotonic()))
            await app(scope, receive, send)
        case "forgetful":
            await app(scope, receive, _swallow)
            await _trouble(scope, send)
        case _:
            await _trouble(scope, send)


async def _swallow(_: Any) -> None:
    return


async def _trouble(scope: Any, send: Any) -> None:
    if service_of(scope) == "s3":
        await reply(send, 500, _XML, kind="application/xml")
    else:
        await reply(send, 500, _TROUBLE, {"x-amzn-errortype": "InternalServerError"}, "application/x-amz-json-1.0")
