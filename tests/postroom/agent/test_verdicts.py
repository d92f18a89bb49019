"""What each way of failing is called, whether a retry can help, and when."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from postroom.agent.run import run
from postroom.errors import classify
from tests.fixtures.model import Step, answer, drop, hang, refuse, say, use
from tests.postroom.agent.conftest import SUMMARY, agents


async def _failed(job, category, **more):
    result = await run(job(**more), driver="claude")
    assert not result.ok
    assert result.error is not None
    assert result.error.category == category, (result.outcome, result.error)
    assert classify(result.error) is result.error
    with pytest.raises(type(result.error)):
        result.or_raise()
    return result


async def test_a_refused_key_ends_it_at_once(job, model):
    model.script(refuse(401), refuse(401), refuse(401), refuse(401))
    result = await _failed(job, "auth", retries=5)
    assert not result.retryable
    assert len(model.requests) <= 2
    assert result.trace.seconds < 10


async def test_a_rate_limit_carries_the_time_of_its_reset(job, model):
    model.script(*(refuse(429, retry_after="120") for _ in range(5)))
    result = await _failed(job, "rate-limit", retries=3)
    assert result.retryable
    wait = result.reset_at - datetime.now(UTC)
    assert timedelta(seconds=100) < wait < timedelta(seconds=130)
    assert len(model.requests) == 1  # the wait is the caller's, no attempt is burnt
    assert result.trace.seconds < 10


async def test_a_quota_that_names_its_reset_carries_it(job, model):
    until = int(time.time()) + 3600
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(until),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "retry-after": "3600",
    }
    model.script(*(Step(status=429, headers=headers) for _ in range(5)))
    result = await _failed(job, "rate-limit", retries=3)
    assert abs(result.reset_at.timestamp() - until) < 15


async def test_a_short_rate_limit_is_waited_for_inside(job, model):
    model.script(refuse(429, retry_after="1"), say("Here you are."))
    result = await run(job(), driver="claude")
    assert result.outcome == "done"
    assert result.trace.retries[0]["status"] == 429


async def test_a_broken_endpoint_can_be_tried_again_later(job, model):
    model.script(*(refuse(529) for _ in range(6)))
    result = await _failed(job, "server")
    assert result.retryable
    assert len(model.requests) == 2  # one try and one retry


async def test_a_fault_that_passes_is_no_failure(job, model):
    model.script(refuse(500), say("Here you are."))
    result = await run(job(), driver="claude")
    assert (result.outcome, result.text) == ("done", "Here you are.")


async def test_an_endpoint_that_hangs_is_a_timeout(job, model):
    model.script(hang(), hang(), hang())
    result = await _failed(job, "timeout", seconds=3.0)
    assert (result.outcome, result.retryable) == ("timeout", True)
    assert result.trace.seconds < 3 + 40
    assert not agents()


async def test_silence_is_noticed_before_the_time_is_up(job, model):
    model.script(say("Let me think.", stall=60, pings=True))
    result = await _failed(job, "timeout", seconds=60.0, idle_seconds=2.0)
    assert result.outcome == "stuck"
    assert result.trace.seconds < 50


async def test_a_dropped_connection_is_the_networks_fault(job, model):
    model.script(*(drop() for _ in range(8)))
    result = await _failed(job, "network")
    assert result.retryable


async def test_nobody_there_is_the_networks_fault(job, model):
    from pydantic import SecretStr

    from postroom.agent.job import Endpoint

    result = await _failed(job, "network", endpoint=Endpoint("http://127.0.0.1:9", SecretStr(model.key)))
    assert result.retryable


async def test_an_answer_that_keeps_breaking_the_schema_is_unreadable(job, model):
    model.script(*(answer(summary=["not", "text"]) for _ in range(12)))
    result = await _failed(job, "parse", schema=SUMMARY)
    assert not result.retryable
    assert result.output is None


async def test_an_answer_without_the_structure_is_unreadable(job, model):
    model.script(*(say("Done, I think.") for _ in range(12)))
    await _failed(job, "parse", schema=SUMMARY)


async def test_the_last_turn_is_not_success_and_keeps_what_there_is(job, model, workspace):
    model.script(*(use("Write", file_path=f"note-{n}.txt", content="x") for n in range(5)))
    result = await _failed(job, "limit", max_turns=2)
    assert result.outcome == "max-turns"
    assert result.partial
    assert (workspace / "note-0.txt").exists()


async def test_money_spent_is_not_success(job, model):
    dear = {"output_tokens": 1_000_000}
    model.script(*(Step(tools=[("Glob", {"pattern": "*"})], usage=dear) for _ in range(4)))
    result = await _failed(job, "limit", max_usd=0.01)
    assert result.outcome == "budget"
    assert result.cost_usd > 0.01
    assert not result.retryable


async def test_a_request_the_endpoint_will_never_take_is_our_input(job, model):
    model.script(refuse(400))
    result = await _failed(job, "validation")
    assert not result.retryable
