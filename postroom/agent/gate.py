"""The one door between an agent and the model: it holds the key, and it reads what the agent's CLI does not tell.

    CLI ──(a key of no worth)──▶ gate ──(the real key)──▶ the model's endpoint

Only messages pass. The real key never enters the sandbox. The CLI keeps a rate limit's reset to itself;
the gate sees it in the answer's headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
from aiohttp import web

from postroom.agent.job import Endpoint
from postroom.errors import AuthFailed, Misconfigured

PUBLIC = "https://api.anthropic.com"
_PATHS = ("/v1/messages", "/v1/messages/count_tokens")
_LARGEST = 64 * 1024 * 1024
_OURS = {"host", "authorization", "x-api-key", "connection", "content-length", "transfer-encoding", "keep-alive"}
_OAUTH = "sk-ant-oat"  # such a token is sent in another header, and the CLI has to know


class Gate:
    """Where the agent's CLI calls, what it has to show, and what the endpoint last said about its limits."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._upstream = (endpoint.url or PUBLIC).rstrip("/")
        if not self._upstream.startswith(("http://", "https://")):
            raise Misconfigured("POSTROOM_AGENT_URL must be an http or https URL")
        if endpoint.token is None:
            raise AuthFailed("no key for the model's endpoint: set POSTROOM_AGENT_TOKEN, or POSTROOM_AGENT=literal")
        self._token = endpoint.token.get_secret_value()
        self.oauth = self._token.startswith(_OAUTH)
        self.key = f"{_OAUTH if self.oauth else 'sk-ant-gate'}01-{secrets.token_urlsafe(24)}"
        self.port = 0
        self.resets_at: float | None = None  # seconds since 1970, while the endpoint refuses for its limits

    def environment(self) -> dict[str, str]:
        """What the CLI has to be told."""
        name = "CLAUDE_CODE_OAUTH_TOKEN" if self.oauth else "ANTHROPIC_API_KEY"
        return {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.port}", name: self.key}

    async def pass_on(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        shown = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(), self.key.encode()):
            return web.json_response(
                {"error": {"type": "authentication_error", "message": "not your door"}}, status=401
            )
        if request.path not in _PATHS or request.method != "POST":
            return web.json_response({"error": {"type": "not_found_error", "message": "only messages"}}, status=404)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OURS}
        headers |= {"authorization": f"Bearer {self._token}"} if self.oauth else {"x-api-key": self._token}
        body = await request.read()
        try:
            async with session.post(self._upstream + request.path_qs, data=body, headers=headers) as answer:
                return await self._answer(request, answer)
        except (aiohttp.ClientError, OSError):
            _hang_up(request)  # so that the CLI sees what we saw
            return web.Response(status=502)

    async def _answer(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        self.resets_at = reset_of(answer.headers) if answer.status == 429 else None
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OURS}
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def reset_of(headers: Mapping[str, str]) -> float | None:
    """When a rate limit ends, in seconds since 1970, by whichever header says so."""
    after = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return time.time() + max(0.0, float(after))
    with contextlib.suppress(ValueError, TypeError):
        return parsedate_to_datetime(after).timestamp()
    with contextlib.suppress(ValueError):
        return float(headers.get("anthropic-ratelimit-unified-reset", ""))
    found = []
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        if headers.get(f"anthropic-ratelimit-{kind}-remaining") == "0":
            with contextlib.suppress(ValueError):
                at = datetime.fromisoformat(headers.get(f"anthropic-ratelimit-{kind}-reset", ""))
                found.append((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    return max(found, default=None)


@contextlib.asynccontextmanager
async def gate(endpoint: Endpoint) -> AsyncIterator[Gate]:
    """An open gate to the endpoint; raises AuthFailed without a key."""
    opened = Gate(endpoint)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=True) as session:

        async def door(request: web.Request) -> web.StreamResponse:
            return await opened.pass_on(request, session)

        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{path:.*}", door)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            opened.port = int(runner.addresses[0][1])
            yield opened
        finally:
            await asyncio.shield(asyncio.ensure_future(runner.cleanup()))
