"""Which failures are tried again, and how often."""

from datetime import UTC, datetime, timedelta

import pytest

from postroom.agent.tries import run_tries
from tests.fixtures.model import refuse, say


class Pauses(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


async def test_a_broken_endpoint_is_tried_three_times(job, model, pauses):
    model.script(*(refuse(500) for _ in range(9)))
    tried = await run_tries(job(retries=0), driver="claude", pause=pauses)
    assert (tried.attempts, tried.result.error.category) == (3, "server")
    assert len(model.requests) == 3
    assert 1 <= pauses[0] <= 2 <= pauses[1] <= 4


async def test_a_try_that_succeeds_is_the_last(job, model, pauses):
    model.script(refuse(500), say("Here."))
    tried = await run_tries(job(retries=0), driver="claude", pause=pauses)
    assert (tried.attempts, tried.result.outcome) == (2, "done")


async def test_a_reset_is_waited_for_and_burns_no_attempt(job, model, pauses):
    model.script(refuse(429, retry_after="120"), refuse(429, retry_after="90"), say("Here."))
    tried = await run_tries(job(), driver="claude", pause=pauses)
    assert (tried.attempts, tried.waits, tried.result.outcome) == (1, 2, "done")
    assert 110 < pauses[0] < 122
    assert 80 < pauses[1] < 92


async def test_a_reset_too_far_away_is_left_to_the_caller(job, model, pauses):
    model.script(refuse(429, retry_after="3600"))
    tried = await run_tries(job(), driver="claude", pause=pauses)
    assert not pauses
    assert tried.result.reset_at is not None


@pytest.mark.parametrize("after", ["inf", "1e12"])
async def test_a_reset_that_no_clock_can_hold_is_a_day_away(job, model, pauses, after):
    model.script(*(refuse(429, retry_after=after) for _ in range(3)))
    tried = await run_tries(job(retries=0), driver="claude", pause=pauses)
    assert not pauses
    assert tried.result.error.category == "rate-limit"
    assert timedelta(hours=23) < tried.result.reset_at - datetime.now(UTC) <= timedelta(hours=24)


async def test_a_rate_limit_without_a_reset_burns_attempts(job, model, pauses):
    model.script(*(refuse(429) for _ in range(9)))
    tried = await run_tries(job(), driver="claude", pause=pauses)
    assert (tried.attempts, tried.waits, tried.result.reset_at) == (3, 0, None)


async def test_what_a_retry_can_not_mend_is_not_tried_again(job, model, pauses):
    model.script(*(refuse(401) for _ in range(3)))
    tried = await run_tries(job(), driver="claude", pause=pauses)
    assert (tried.attempts, len(pauses)) == (1, 0)
    assert tried.result.error.category == "auth"
