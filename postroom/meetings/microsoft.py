"""Requests to Microsoft Graph: with a token that is kept and renewed, and no faster than the server says."""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import SecretStr

from postroom.errors import (
    AuthFailed,
    Misconfigured,
    PostroomError,
    RateLimited,
    Unavailable,
    Unparsable,
    classify,
    from_status,
)

API = "https://graph.microsoft.com/v1.0"
LOGIN = "https://login.microsoftonline.com"
RENEW_SECONDS = 300.0  # before a token ends; of a short one, after half its life
LONGEST_WAIT = 60.0  # what the server asks for beyond this is waited for by the run, not inside it
FIRST_PAUSE = 0.5
TIMEOUT = httpx.Timeout(30, connect=5)


@dataclass(frozen=True)
class Access:
    """An application's way into one calendar."""

    tenant: str
    client_id: str
    client_secret: SecretStr
    organizer: str  # whose calendar: user principal name or id
    api: str = API
    login: str = LOGIN
    online: bool = True
    hide_attendees: bool = True

    @property
    def calendar(self) -> str:
        return f"/users/{quote(self.organizer, safe='@')}"


class Microsoft:
    """A connection, to be used as `async with`."""

    def __init__(self, access: Access, *, tries: int = 3, longest_wait: float = LONGEST_WAIT) -> None:
        self.access, self._tries, self._longest = access, max(1, tries), longest_wait
        self._http = httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False)
        self._token: SecretStr | None = None
        self._renew_at = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Microsoft:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer's JSON ({} when it is empty). What may pass is tried again: the request must bear that."""
        for attempt in range(1, self._tries + 1):
            try:
                return await self._call(method, path, body, query)
            except PostroomError as error:
                if not error.retryable or attempt == self._tries:
                    raise
                pause = error.retry_after if isinstance(error, RateLimited) else None
                if pause is None:
                    pause = random.uniform(0, FIRST_PAUSE * 2**attempt)  # noqa: S311 - jitter, no secret
                elif pause > self._longest:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None, query: Mapping[str, str] | None
    ) -> dict[str, Any]:
        for fresh in (False, True):
            token = await self.token(renew=fresh)
            headers = {
                "Authorization": f"Bearer {token.get_secret_value()}",
                "Prefer": 'outlook.timezone="UTC", IdType="ImmutableId"',
            }
            answer = await self._send(
                method, f"{self.access.api.rstrip('/')}{path}", headers=headers, json=body, params=query
            )
            if answer.status_code != 401 or fresh:  # a token may end, or be taken back, before its time
                break
        return _read(answer, f"Graph: {method} {path}")

    async def token(self, *, renew: bool = False) -> SecretStr:
        """A token that is valid for a while."""
        async with self._one_at_a_time:
            if self._token is None or renew or time.monotonic() >= self._renew_at:
                self._token, lifetime = await self._login()
                self._renew_at = time.monotonic() + max(lifetime - RENEW_SECONDS, lifetime / 2)
            return self._token

    async def _login(self) -> tuple[SecretStr, float]:
        access = self.access
        form = {
            "grant_type": "client_credentials",
            "client_id": access.client_id,
            "client_secret": access.client_secret.get_secret_value(),
            "scope": "https://graph.microsoft.com/.default",
        }
        url = f"{access.login.rstrip('/')}/{quote(access.tenant, safe='')}/oauth2/v2.0/token"
        answer = await self._send("POST", url, data=form)
        if 400 <= answer.status_code < 500 and answer.status_code not in (408, 429):
            # Only its code: the description repeats what was sent.
            said = _json(answer).get("error", f"status {answer.status_code}")
            raise AuthFailed(f"Microsoft gives no token to client {access.client_id} of tenant {access.tenant}: {said}")
        found = _read(answer, "Microsoft: token")
        try:
            return SecretStr(str(found["access_token"])), float(found["expires_in"])
        except (KeyError, ValueError, TypeError):
            raise Unparsable("Microsoft's answer holds no access_token and expires_in") from None

    async def _send(self, method: str, url: str, **given: Any) -> httpx.Response:
        try:
            return await self._http.request(method, url, **given)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise Misconfigured(f"{url.partition('?')[0]} is no address that can be asked") from None
        except httpx.HTTPError as error:
            known = classify(error)
            raise type(known)(f"{method} {url.partition('?')[0]}: {known}") from None


def _read(answer: httpx.Response, what: str) -> dict[str, Any]:
    status = answer.status_code
    if 200 <= status < 300:
        return _json(answer)
    problem = _json(answer).get("error")
    problem = problem if isinstance(problem, dict) else {}
    said = f"{what}: {status} {problem.get('code', '')}: {problem.get('message', 'no reason given')}"[:1000]
    if status == 409:  # somebody, perhaps an earlier try, is writing the same item
        raise Unavailable(said, status=status)
    if status == 503 and answer.headers.get("retry-after"):
        raise RateLimited(said, retry_after=retry_after(answer), status=status)
    raise from_status(status, said, retry_after=retry_after(answer))


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json() if answer.content else {}
    except (json.JSONDecodeError, UnicodeDecodeError):
        found = None
    if isinstance(found, dict):
        return found
    if 200 <= answer.status_code < 300:
        raise Unparsable(f"{answer.request.url.path} did not answer with a JSON object")
    return {}


def retry_after(answer: httpx.Response) -> float | None:
    """Seconds the server wants us to wait: it may say a number or a time."""
    value = answer.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
