"""Every way in which an agent can fail: the class, the number of attempts and the final event."""

import time

import pytest

from postroom.ledger import State
from postroom.settings import settings
from tests.fixtures.model import Model, answer, drop, hang, refuse, say, use
from tests.flows.agent_task.conftest import SUMMARY, Room


@pytest.fixture(autouse=True)
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries inside one attempt are the agent's own tests' matter; here attempts are counted."""
    monkeypatch.setenv("POSTROOM_CALL_TRIES", "1")


async def test_a_refused_key_fails_at_once(room: Room, model: Model) -> None:
    model.script(*(refuse(401) for _ in range(5)))
    state = await room.run()
    assert state.is_failed()
    assert room.events() == ["Processing Started", "Failed"]
    assert (room.said("Failed")["category"], room.row.state, room.row.attempts) == ("auth", State.FAILED, 1)
    assert model.key not in str(room.said("Failed")) + room.text("logs/agent.log") + room.text("logs/summary.log")


async def test_a_rate_limit_with_a_reset_is_waited_for_without_an_attempt(room: Room, model: Model) -> None:
    for _ in range(4):  # more often than there are attempts
        model.script(*(refuse(429, retry_after="120") for _ in range(3)))
        state = await room.run()
        assert (state.name, state.is_completed()) == ("Put off", True)
        assert (room.row.state, room.row.attempts) == (State.WAITING, 0)
        assert 100 < room.row.effective_until / 1000 - time.time() < 125
        room.due_now()
    model.script(say("At last."))
    await room.run()
    assert (room.row.state, room.row.attempts) == (State.DONE, 1)
    assert room.events() == [*["Processing Started", "Put Off"] * 4, "Processing Started", "Completed"]
    assert room.said("Put Off")["category"] == "rate-limit"


async def test_a_reset_that_never_comes_costs_attempts_in_the_end(
    room: Room, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTROOM_LONGEST_WAIT_HOURS", "0.01")
    settings.cache_clear()
    model.script(*(refuse(429, retry_after="120") for _ in range(3)))
    assert (await room.run()).is_failed()
    assert (room.row.state, room.row.attempts) == (State.WAITING, 1)
    assert 100 < room.row.effective_until / 1000 - time.time() < 125
    assert room.events() == ["Processing Started", "Processing Failed"]


async def test_a_rate_limit_without_a_reset_is_tried_in_three_attempts(room: Room, model: Model) -> None:
    for attempt in (1, 2, 3):
        model.script(*(refuse(429) for _ in range(9)))
        assert (await room.run()).is_failed()
        assert room.row.attempts == attempt
        if attempt < 3:
            room.due_now()
    assert room.events() == [*["Processing Started", "Processing Failed"] * 2, "Processing Started", "Failed"]
    assert (room.said("Failed")["category"], room.row.state) == ("rate-limit", State.FAILED)


async def test_a_broken_endpoint_is_tried_in_three_attempts(room: Room, model: Model) -> None:
    for attempt in (1, 2, 3):
        model.script(*(refuse(500) for _ in range(9)))
        assert (await room.run()).is_failed()
        assert len(model.requests) == 1  # nobody below tries again uncounted
        assert room.row.attempts == attempt
        if attempt < 3:
            assert room.row.state is State.WAITING
            room.due_now()
    assert room.row.state is State.FAILED
    assert room.events() == [*["Processing Started", "Processing Failed"] * 2, "Processing Started", "Failed"]
    assert (room.said("Failed")["category"], room.said("Failed")["attempt"]) == ("server", 3)


async def test_an_endpoint_that_hangs_ends_as_a_timeout(room: Room, model: Model) -> None:
    model.script(*(hang() for _ in range(5)))
    began = time.monotonic()
    assert (await room.run(timeoutSeconds=3)).is_failed()
    assert time.monotonic() - began < 3 + 20
    assert room.events() == ["Processing Started", "Timeout"]
    assert (room.said("Timeout")["category"], room.row.state, room.row.attempts) == ("timeout", State.FAILED, 1)


async def test_a_dropped_connection_is_tried_again_in_the_next_attempt(room: Room, model: Model) -> None:
    model.script(*(drop() for _ in range(9)))
    assert (await room.run()).is_failed()
    assert room.events() == ["Processing Started", "Processing Failed"]
    assert (room.said("Processing Failed")["category"], room.row.state) == ("network", State.WAITING)
    room.due_now()
    model.script(say("Through."))
    assert (await room.run()).is_completed()
    assert room.row.attempts == 2


async def test_an_answer_that_breaks_its_schema_fails_at_once(room: Room, model: Model) -> None:
    model.script(*(answer(summary=["not", "text"]) for _ in range(15)))
    assert (await room.run(outputSchema=SUMMARY)).is_failed()
    assert room.events() == ["Processing Started", "Failed"]
    assert (room.said("Failed")["category"], room.row.attempts) == ("parse", 1)
    assert room.results.latest() is None


async def test_the_last_turn_is_no_success_and_what_there_is_is_kept(room: Room, model: Model) -> None:
    model.script(*(use("Write", file_path=f"note-{n}.md", content="half") for n in range(6)))
    assert (await room.run(tools=["Write"], maxTurns=2)).is_failed()
    assert room.events() == ["Processing Started", "Failed"]
    said = room.said("Failed")
    assert (said["category"], said["outcome"], room.row.attempts) == ("limit", "max-turns", 1)
    assert said["partial"].endswith("artifacts/partial-result.json")
    assert '"complete": false' in room.text("artifacts/partial-result.json")
    assert room.text("artifacts/files/note-0.md") == "half"
    assert room.results.latest() is None
    assert room.row.outcome["partial"] == said["partial"]


async def test_a_task_that_is_not_valid_never_reaches_an_agent(room: Room, model: Model) -> None:
    assert (await room.run(maxTurn=3, prompt="{{input.text}}")).is_failed()
    assert room.events() == ["Processing Started", "Failed"]
    assert room.said("Failed")["category"] == "validation"
    assert "maxTurn" in room.said("Failed")["reason"]
    assert model.requests == []


async def test_a_placeholder_without_a_value_fails_by_name(room: Room, model: Model) -> None:
    assert (await room.run(prompt="{{input.nothing}}")).is_failed()
    assert (room.said("Failed")["category"], room.row.attempts) == ("validation", 1)
    assert "{{input.nothing}}" in room.said("Failed")["reason"]
    assert model.requests == []


async def test_an_error_in_our_own_code_fails_at_once(
    room: Room, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError(f"'NoneType' object is not iterable: {model.key}")

    monkeypatch.setattr("postroom.tasks.record.document", broken)
    model.script(say("Fine."))
    state = await room.run()
    assert state.is_failed()
    assert "NoneType" in state.message
    assert model.key not in state.message
    assert room.events() == ["Processing Started", "Failed"]
    assert (room.said("Failed")["category"], room.row.attempts) == ("programming", 1)
