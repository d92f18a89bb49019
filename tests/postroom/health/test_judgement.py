"""Every rule of the health check, by its figures."""

from collections.abc import Sequence
from typing import Any

import pytest

from postroom.aws.counts import Count
from postroom.health.facts import MINUTE, Facts, Working
from postroom.health.judgement import Health, health_of, troubles
from postroom.settings import load

NOW = 1_800_000_000_000
S = load()


def minutes_ago(minutes: float) -> int:
    return NOW - int(minutes * MINUTE)


def facts(**more: Any) -> Facts:
    return Facts(**{"now": NOW, "sensor_sign": NOW, **more})


def found(**more: Any) -> Sequence[str]:
    return [trouble.key for trouble in troubles(facts(**more), S)]


@pytest.mark.parametrize(
    ("begun", "sign", "health"),
    [
        (1, 0, Health.HEALTHY),
        (20, 5, Health.HEALTHY),
        (20, 5.01, Health.WARNING),
        (20, 10, Health.WARNING),
        (20, 10.01, Health.CRITICAL),
        (60, 0, Health.HEALTHY),
        (60.01, 0, Health.OVERTIME),
        (61, 30, Health.OVERTIME),  # overtime is looked at first
    ],
)
def test_work_is_judged_by_its_last_sign_of_life_and_first_by_its_time(
    begun: float, sign: float, health: Health
) -> None:
    assert health_of(Working("task:a", "task", minutes_ago(begun), minutes_ago(sign)), NOW, S) is health


def test_a_quiet_house_is_well() -> None:
    assert found(queues={"q": Count(0, 3, 0)}, last_success=None) == []


def test_waiting_work_without_any_success_is_an_alarm_and_with_one_is_not() -> None:
    waits = {"waiting": 2, "oldest_waiting": minutes_ago(31)}
    assert "no-success" in found(**waits)
    assert "no-success" in found(**waits, last_success=minutes_ago(30.1))
    assert "no-success" not in found(**waits, last_success=minutes_ago(29))
    assert "no-success" not in found(waiting=2, oldest_waiting=minutes_ago(29))
    assert "no-success" not in found(last_success=minutes_ago(600)), "nothing waits"


@pytest.mark.parametrize(("number", "alarm"), [(0, False), (10, False), (11, True)])
def test_more_than_ten_dead_letters_are_an_alarm(number: int, alarm: bool) -> None:
    assert ("dead-letters" in found(dead_letters=number)) is alarm


@pytest.mark.parametrize(("number", "alarm"), [(5, False), (6, True)])
def test_more_than_five_failures_an_hour_are_an_alarm(number: int, alarm: bool) -> None:
    assert ("failures" in found(failures=[f"TASK#{n}" for n in range(number)])) is alarm


def test_queues_that_nobody_empties_or_that_are_very_long_are_alarms() -> None:
    long, short = {"q": Count(1001, 0, 0)}, {"q": Count(1, 0, 0)}
    assert found(queues=long, untouched_since={"q": NOW}) == ["queue-depth:q"]
    assert found(queues=short, untouched_since={"q": minutes_ago(16)}) == ["queue-age:q"]
    assert found(queues=short, untouched_since={"q": minutes_ago(14)}) == []


def test_a_queue_that_is_held_back_is_no_alarm_while_its_work_begins_and_ends() -> None:
    waits: dict[str, Any] = {"queues": {"q": Count(9, 6, 0)}, "untouched_since": {"q": minutes_ago(90)}}
    assert found(**waits, moved={"q": minutes_ago(1)}, last_success=minutes_ago(1)) == []
    assert found(**waits, moved={"q": minutes_ago(16)}, last_success=minutes_ago(16)) == ["queue-age:q"]


def test_a_job_that_owes_a_step_for_long_is_told() -> None:
    assert found(owing=[("j1", minutes_ago(14)), ("j2", minutes_ago(16))]) == ["job:j2"]


def test_a_silent_sensor_silent_pools_late_runs_and_a_silent_prefect_are_alarms() -> None:
    assert found(sensor_sign=None) == ["sensor"]
    assert found(sensor_sign=minutes_ago(3)) == ["sensor"]
    assert found(silent_pools=["heavy"]) == ["pool:heavy"]
    assert found(prefect_answers=False) == ["prefect"]
    assert found(late_runs=[("edit-site", minutes_ago(6))]) == ["late-runs"]
    assert found(late_runs=[("edit-site", minutes_ago(4))]) == []


def test_critical_troubles_come_first() -> None:
    silent = Working("task:a", "task", minutes_ago(20), minutes_ago(6))
    stuck = Working("task:b", "task", minutes_ago(20), minutes_ago(11))
    assert found(working=[silent, stuck]) == ["work:task:b", "work:task:a"]
