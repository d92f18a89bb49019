"""What no AWS has: `/_postroom/…` for those who run or test the local one.

GET  /_postroom/health                    it is there
GET  /_postroom/outbox[?account=] all mail it has sent, oldest first, as one JSON array
GET  /_postroom/outbox/{message_id}       one mail as it would have gone over the wire
PUT  /_postroom/accounts/{account}/quota  {"MaxSendRate": …, "Max24HourSend": …}
PUT  /_postroom/weather                   {"kind": …, "seconds": …}: see weather.py
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, unquote

from deployments.local_aws.http import body_of, reply
from deployments.local_aws.ses.layer import Ses
from deployments.local_aws.weather import Weather

_QUOTAS = ("MaxSendRate", "Max24HourSend")


class Desk:
    def __init__(self, ses: Ses) -> None:
        self.ses = ses
        self.weather = Weather()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        match scope["method"], scope["path"].removeprefix("/_postroom/").split("/"):
            case "GET", ["health"]:
                await reply(send, 200, b"{}")
            case "GET", ["outbox"]:
                await self._outbox(parse_qs(scope["query_string"].decode()), send)
            case "GET", ["outbox", message_id]:
                raw = self.ses.records.raw(unquote(message_id))
                await (reply(send, 404, b"{}") if raw is None else reply(send, 200, raw, kind="message/rfc822"))
            case "PUT", ["accounts", account, "quota"]:
                await self._quota(account, await body_of(receive), send)
            case "PUT", ["weather"]:
                await self._weather(await body_of(receive), send)
            case _:
                await reply(send, 404, b"{}")

    async def _outbox(self, query: dict[str, list[str]], send: Any) -> None:
        account = query.get("account", [None])[0]  # type: ignore[list-item]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        separator = b"["
        for mail in self.ses.records.outbox(account):
            await send({"type": "http.response.body", "body": separator + mail.encode(), "more_body": True})
            separator = b",\n"
        await send({"type": "http.response.body", "body": b"[]" if separator == b"[" else b"]"})

    async def _quota(self, account: str, body: bytes, send: Any) -> None:
        try:
            wish = {name: float(value) for name, value in json.loads(body).items() if name in _QUOTAS}
        except (ValueError, TypeError, AttributeError):
            await reply(send, 400, json.dumps({"message": f"a JSON object with {' and '.join(_QUOTAS)}"}).encode())
            return
        self.ses.account.change(account, **wish)
        self.ses.kept.write()
        await reply(send, 200, b"{}")

    async def _weather(self, body: bytes, send: Any) -> None:
        try:
            self.weather = Weather.ordered(json.loads(body))
        except (ValueError, TypeError) as error:
            await reply(send, 400, json.dumps({"message": str(error)}).encode())
            return
        await reply(send, 200, b"{}")
