"""The door between an agent and the model."""

import time
from email.utils import formatdate

import httpx
import pytest
from pydantic import SecretStr

from postroom.agent.gate import gate, reset_of
from postroom.agent.job import Endpoint
from postroom.errors import AuthFailed, Misconfigured
from tests.fixtures.model import refuse, say

ASKED = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hello"}]}
VERSION = {"anthropic-version": "2023-06-01"}


async def _post(door, path="/v1/messages", *, key=None, **more):
    url = f"http://127.0.0.1:{door.port}{path}"
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(url, json=ASKED, headers={"x-api-key": key or door.key, **VERSION, **more})


async def test_it_shows_the_real_key_outside_and_never_inside(model):
    model.script(say("Hi."))
    async with gate(Endpoint(model.url, SecretStr(model.key))) as door:
        assert model.key not in str(door.environment())
        answer = await _post(door)
    assert answer.json()["content"][0]["text"] == "Hi."
    assert model.requests[0].headers["x-api-key"] == model.key


async def test_a_stranger_at_the_door_gets_nothing(model):
    async with gate(Endpoint(model.url, SecretStr(model.key))) as door:
        assert (await _post(door, key="guessed")).status_code == 401
        assert (await _post(door, key=model.key)).status_code == 401
    assert not model.requests


@pytest.mark.parametrize(
    "path", ["/", "/v1/files", "/v1/messages/batches", "/v1/messages/../files", "//evil/v1/messages"]
)
async def test_only_messages_pass(model, path):
    async with gate(Endpoint(model.url, SecretStr(model.key))) as door:
        assert (await _post(door, path)).status_code == 404
    assert not model.requests


async def test_an_oauth_token_goes_where_such_tokens_go(model, monkeypatch):
    token = "sk-ant-oat01-scripted-0123456789"
    monkeypatch.setattr(model, "key", token)
    model.script(say("Hi."))
    async with gate(Endpoint(model.url, SecretStr(token))) as door:
        assert door.environment()["CLAUDE_CODE_OAUTH_TOKEN"].startswith("sk-ant-oat")
        assert token not in str(door.environment())
        assert (await _post(door)).status_code == 200
    seen = {name.lower(): value for name, value in model.requests[0].headers.items()}
    assert seen["authorization"] == f"Bearer {token}"
    assert "x-api-key" not in seen


async def test_it_remembers_a_limit_until_an_answer_comes(model):
    model.script(refuse(429, retry_after="60"), say("Hi."))
    async with gate(Endpoint(model.url, SecretStr(model.key))) as door:
        assert (await _post(door)).status_code == 429
        assert door.resets_at == pytest.approx(time.time() + 60, abs=5)
        await _post(door)
        assert door.resets_at is None


@pytest.mark.parametrize(
    ("headers", "reset"),
    [
        ({"retry-after": formatdate(4_000_000_000, usegmt=True)}, 4_000_000_000),
        ({"anthropic-ratelimit-unified-reset": "4000000000"}, 4_000_000_000),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2096-10-02T07:06:40Z",
                "anthropic-ratelimit-requests-remaining": "9",
                "anthropic-ratelimit-requests-reset": "2099-01-01T00:00:00Z",
            },
            4_000_000_000,
        ),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_reset_is_read_from_whichever_header_tells_it(headers, reset):
    assert reset_of(headers) == reset


def test_a_number_of_seconds_counts_from_now():
    assert reset_of({"retry-after": "30"}) == pytest.approx(time.time() + 30, abs=5)


async def test_a_gate_without_key_or_with_a_strange_url_does_not_open():
    with pytest.raises(AuthFailed, match="POSTROOM_AGENT_TOKEN"):
        async with gate(Endpoint("http://127.0.0.1:9", None)):
            pass
    with pytest.raises(Misconfigured, match="POSTROOM_AGENT_URL"):
        async with gate(Endpoint("ftp://example.com", SecretStr("x"))):
            pass
