"""Which failures are tried again, and how often."""

from datetime import UTC, datetime, timedelta

import pytest

from postroom.agent.tries import run_tries
from postroom.settings import settings
from postroom.tasks.tray import Tray
from tests.fixtures.model import refuse, say, use


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


async def test_all_tries_together_have_one_budget_and_what_they_cost_is_added_up(job, model, pauses):
    model.script(use("Read", file_path="package.json"), refuse(500), say("Here."))
    tried = await run_tries(job(retries=0, max_usd=2.0), driver="claude", pause=pauses)
    alone = await run_one(job, model)
    assert (tried.attempts, tried.result.outcome) == (2, "done")
    assert tried.result.cost_usd > alone.cost_usd > 0
    assert tried.result.usage.input > alone.usage.input > 0


async def run_one(job, model):
    model.script(say("Here."))
    return (await run_tries(job(retries=0), driver="claude")).result


async def test_another_try_is_given_what_the_one_before_has_left_of_the_budget(job, model, pauses):
    turn = (await run_one(job, model)).cost_usd
    read = use("Read", file_path="package.json")
    model.script(read, refuse(500), read, say("Here."))
    tried = await run_tries(job(retries=0, max_usd=1.5 * turn), driver="claude", pause=pauses)
    assert (tried.attempts, tried.result.outcome) == (2, "budget")
    assert model.left == 1


async def test_another_try_does_not_find_what_the_one_before_has_left(job, model, pauses, tmp_path, monkeypatch):
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path / "data"))
    settings.cache_clear()
    with Tray("task:a", 1) as tray:
        tray.put_input({"text": "as it came"})
        model.script(
            use("Write", file_path="half.md", content="unfinished"),
            refuse(500),
            use("Glob", pattern="**"),
            say("Here."),
        )
        asked = job(retries=0, workspace=tray.workspace)
        tried = await run_tries(asked, driver="claude", pause=pauses, anew=tray.lay_anew)
        assert tried.result.outcome == "done"
        assert [each.name for each in tray.workspace.iterdir()] == ["input.json"]
    assert "half.md" not in model.requests[3].results[0]
