"""From facts to troubles: a pure function, so that every rule can be seen and tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from postroom.health.facts import MINUTE, Facts, Working
from postroom.settings import Settings

SENSOR_SECONDS = 120
OWED_MINUTES = 15  # a step that fails is run again at distances of up to five
NOTHING_IN = "Nothing that arrives is taken in."


class Health(StrEnum):
    """One piece of work that somebody holds."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    OVERTIME = "overtime"


@dataclass(frozen=True)
class Trouble:
    """Something a person should know of. The key stays the same for as long as it is the same trouble."""

    key: str
    severity: str  # warning or critical
    title: str  # our own words
    detail: str = ""  # may hold words of strangers: only ever shown as plain text


def health_of(work: Working, now: int, s: Settings) -> Health:
    """How a piece of work is. Overtime comes first: who works too long may well beat regularly."""
    if now - work.begun_at > s.health_overtime_minutes * MINUTE:
        return Health.OVERTIME
    silent = now - work.last_sign
    if silent <= s.health_warning_minutes * MINUTE:
        return Health.HEALTHY
    return Health.WARNING if silent <= s.health_critical_minutes * MINUTE else Health.CRITICAL


def troubles(facts: Facts, s: Settings) -> list[Trouble]:
    """All that is wrong, most of all first."""
    found = [*_work(facts, s), *_jobs(facts), *_queues(facts, s), *_results(facts, s), *_house(facts, s)]
    return sorted(found, key=lambda each: (each.severity != "critical", each.key))


def _work(facts: Facts, s: Settings) -> Iterator[Trouble]:
    for work in facts.working:
        health = health_of(work, facts.now, s)
        silent, taken = _minutes(facts.now - work.last_sign), _minutes(facts.now - work.begun_at)
        about = f"{work.key}; attempt {work.attempts}; run {work.run_id or 'not known'}"
        if health is Health.OVERTIME:
            yield Trouble(f"work:{work.key}", "critical", f"A {work.job} has been worked on for {taken}", about)
        elif health is not Health.HEALTHY:
            yield Trouble(f"work:{work.key}", health.value, f"A {work.job} gives no sign of life since {silent}", about)


def _jobs(facts: Facts) -> Iterator[Trouble]:
    for job_id, since in facts.owing:
        if facts.now - since > OWED_MINUTES * MINUTE:
            said = f"Its next step was cancelled, or comes to nothing. To go on: postroom job resume {job_id}"
            yield Trouble(f"job:{job_id}", "warning", f"A job stands still for {_minutes(facts.now - since)}", said)


def _queues(facts: Facts, s: Settings) -> Iterator[Trouble]:
    for name, since in facts.untouched_since.items():
        if facts.now - max(since, facts.moved.get(name, 0)) > s.health_queue_minutes * MINUTE:
            said = f"{facts.queues[name].waiting} letters wait, for at least {_minutes(facts.now - since)}"
            yield Trouble(f"queue-age:{name}", "critical", f"Nobody takes letters from {name}", said)
    for name, count in facts.queues.items():
        if count.waiting > s.health_queue_depth:
            yield Trouble(f"queue-depth:{name}", "warning", f"Many letters wait in {name}", f"{count.waiting} letters")


def _results(facts: Facts, s: Settings) -> Iterator[Trouble]:
    limit = s.health_no_success_minutes * MINUTE
    since = [at for at in (facts.oldest_waiting, *facts.untouched_since.values()) if at is not None]
    waits = bool(since) and facts.now - min(since) > limit
    if waits and (facts.last_success is None or facts.now - facts.last_success > limit):
        last = "in 24 hours" if facts.last_success is None else f"since {_minutes(facts.now - facts.last_success)}"
        waiting = facts.waiting + sum(count.waiting for count in facts.queues.values())
        yield Trouble("no-success", "critical", f"Nothing has succeeded {last}", f"{waiting} pieces of work wait")
    if facts.dead_letters > s.health_dead_letters:
        yield Trouble(
            "dead-letters", "critical", f"{facts.dead_letters} dead letters", "To see them: postroom dead-letters list"
        )
    if len(facts.failures) > s.health_failures_an_hour:
        names = ", ".join(facts.failures[:10])
        yield Trouble("failures", "critical", f"{len(facts.failures)} failures in the last hour", names)


def _house(facts: Facts, s: Settings) -> Iterator[Trouble]:
    if facts.sensor_sign is None:
        yield Trouble("sensor", "critical", "No sensor has ever reported", NOTHING_IN)
    elif facts.now - facts.sensor_sign > SENSOR_SECONDS * 1000:
        silent = _minutes(facts.now - facts.sensor_sign)
        yield Trouble(
            "sensor", "critical", f"No sensor has reported since {silent}", "Nothing that arrives is taken in."
        )
    if not facts.prefect_answers:
        yield Trouble("prefect", "critical", "Prefect does not answer", "Late runs and workers are not known.")
    for pool in facts.silent_pools:
        yield Trouble(f"pool:{pool}", "critical", f"No worker of the pool {pool} reports", "Its runs wait.")
    late = [(flow, since) for flow, since in facts.late_runs if facts.now - since > s.health_late_minutes * MINUTE]
    if late:
        oldest = min(since for _, since in late)
        flows = ", ".join(sorted({flow for flow, _ in late}))
        yield Trouble("late-runs", "warning", f"{len(late)} runs are late, up to {_minutes(facts.now - oldest)}", flows)


def _minutes(ms: int) -> str:
    minutes = ms // MINUTE
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
