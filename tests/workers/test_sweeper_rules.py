"""What the sweeper does with unpaid work: its table, row by row."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import State as RunState

from postroom.ledger import Row, State
from postroom.settings import load
from workers.sweeper import FRUITLESS, Do, fruitless, judge, why_given_up

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = load(pending_seconds=60, promise_seconds=30, sweep_seconds=15)
WAITING = Row("email:a", "mail", State.WAITING, run_id="r", asked=1)
LAPSED = Row("email:a", "mail", State.WORKING, fence=1, attempts=1, run_id="r", asked=1)
LAST = Row("email:a", "mail", State.WAITING, fence=3, attempts=3, run_id="r", asked=3, reason="no wind")
TWICE_IN_VAIN = Row("email:a", "mail", State.WAITING, run_id="r", asked=3)
NEVER = Row("email:a", "mail", State.WAITING, run_id="r", asked=FRUITLESS + 1)


def run(kind: StateType, seconds_ago: float, due_in: float | None = None) -> FlowRun:
    state = RunState(type=kind, timestamp=NOW - timedelta(seconds=seconds_ago))
    due = None if due_in is None else NOW + timedelta(seconds=due_in)
    return FlowRun(flow_id=uuid4(), state=state, next_scheduled_start_time=due)


@pytest.mark.parametrize(
    ("row", "its_run", "what"),
    [
        (WAITING, None, Do.ASK),
        (LAPSED, None, Do.ASK),
        (WAITING, run(StateType.SCHEDULED, 900, due_in=-900), Do.NOTHING),  # the pool is busy, or nobody serves it
        (WAITING, run(StateType.SCHEDULED, 1, due_in=20), Do.NOTHING),
        (WAITING, run(StateType.SCHEDULED, 1, due_in=3600), Do.RESCHEDULE),
        (WAITING, run(StateType.PAUSED, 900), Do.NOTHING),
        (WAITING, run(StateType.PENDING, 59), Do.NOTHING),
        (WAITING, run(StateType.PENDING, 61), Do.RESCHEDULE),
        (TWICE_IN_VAIN, run(StateType.PENDING, 239), Do.NOTHING),  # a crowded machine is not helped by more processes
        (TWICE_IN_VAIN, run(StateType.PENDING, 241), Do.RESCHEDULE),
        (WAITING, run(StateType.RUNNING, 59), Do.NOTHING),
        (WAITING, run(StateType.RUNNING, 61), Do.RESCHEDULE),
        (LAPSED, run(StateType.RUNNING, 44), Do.NOTHING),  # started anew, and about to take its lease
        (LAPSED, run(StateType.RUNNING, 46), Do.RESCHEDULE),
        (LAPSED, run(StateType.PENDING, 61), Do.RESCHEDULE),
        (WAITING, run(StateType.COMPLETED, 0), Do.RESCHEDULE),
        (LAPSED, run(StateType.FAILED, 0), Do.RESCHEDULE),
        (LAPSED, run(StateType.CRASHED, 0), Do.RESCHEDULE),
        (WAITING, run(StateType.CANCELLED, 0), Do.CANCEL),
        (LAPSED, run(StateType.CANCELLING, 10), Do.NOTHING),
        (LAPSED, run(StateType.CANCELLING, 90), Do.CANCEL),
        (LAST, None, Do.FAIL),
        (LAST, run(StateType.FAILED, 0), Do.FAIL),
        (NEVER, run(StateType.CRASHED, 0), Do.FAIL),
        (NEVER, None, Do.FAIL),
        (NEVER, run(StateType.SCHEDULED, 900, due_in=-900), Do.NOTHING),  # nobody has a place for it, that's all
        (NEVER, run(StateType.SCHEDULED, 1, due_in=3600), Do.RESCHEDULE),
        (NEVER, run(StateType.PENDING, 1), Do.NOTHING),
    ],
)
def test_unpaid_work_gets_what_it_needs(row: Row, its_run: FlowRun | None, what: Do) -> None:
    assert judge(row, its_run, SETTINGS, NOW) is what


def test_runs_whose_body_began_are_not_fruitless() -> None:
    assert [fruitless(row) for row in (WAITING, LAPSED, LAST, NEVER)] == [0, 0, 0, FRUITLESS]


def test_the_dead_letter_will_say_why_it_was_given_up() -> None:
    assert why_given_up(LAST) == "attempts used up: 3 of 3; the last said: no wind"
    assert why_given_up(NEVER) == f"its run was asked for {FRUITLESS + 1} times, and its body never began"
