"""Where a job stands: a pure function of its plan and of what the book says about its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from postroom.ledger import Row, State
from postroom.tasks.job_plan import Plan, request_id


class Stands(StrEnum):
    """A task of a job."""

    COMPLETED = "completed"
    FAILED = "failed"
    RUNNING = "running"  # in the book, not at its end
    READY = "ready"  # all it waits for is completed; it has yet to be asked for
    WAITING = "waiting"  # something it waits for is still to be done
    BLOCKED = "blocked"  # something it waits for has failed

    @property
    def settled(self) -> bool:
        return self in (Stands.COMPLETED, Stands.FAILED, Stands.BLOCKED)


@dataclass(frozen=True)
class Standing:
    """A job at one moment."""

    plan: Plan
    tasks: Mapping[str, Stands]
    rows: Mapping[str, Row]  # by task id

    def those(self, *stands: Stands) -> list[str]:
        return [task for task, each in self.tasks.items() if each in stands]

    @property
    def over(self) -> bool:
        """Nothing runs and nothing can begin."""
        return all(each.settled for each in self.tasks.values())

    @property
    def well(self) -> bool:
        return all(each is Stands.COMPLETED for each in self.tasks.values())

    def counts(self) -> dict[str, int]:
        """How many tasks stand how, without those of which there are none."""
        told = {stands.value: len(self.those(stands)) for stands in Stands}
        return {name: number for name, number in told.items() if number}

    def reasons(self) -> dict[str, str]:
        """Why each failed task failed."""
        return {
            task: self.rows[task].reason or f"{self.rows[task].state} without a reason"
            for task in self.those(Stands.FAILED)
        }


def task_key(job_id: str, task_id: str, again: Mapping[str, int]) -> str:
    """The key of a task's present attempt in the book: `:r{n}` after the n-th resume."""
    key = f"task:{request_id(job_id, task_id)}"
    return f"{key}:r{again[task_id]}" if again.get(task_id) else key


def standing(plan: Plan, rows: Mapping[str, Row]) -> Standing:
    """Where each task stands, given the rows of those that were asked for, by task id."""
    found: dict[str, Stands] = {}
    for step in in_order(plan):
        row = rows.get(step)
        parents = [found[each] for each in plan[step].depends_on]
        if row is not None:
            found[step] = _of(row)
        elif any(each in (Stands.FAILED, Stands.BLOCKED) for each in parents):
            found[step] = Stands.BLOCKED
        elif all(each is Stands.COMPLETED for each in parents):
            found[step] = Stands.READY
        else:
            found[step] = Stands.WAITING
    return Standing(plan, {step.id: found[step.id] for step in plan.steps}, rows)


def _of(row: Row) -> Stands:
    if row.state is State.DONE:
        return Stands.COMPLETED
    return Stands.FAILED if row.terminal else Stands.RUNNING


def in_order(plan: Plan) -> Sequence[str]:
    """Task ids, each after all it waits for."""
    placed: dict[str, None] = {}
    rest = list(plan.steps)
    while rest:
        for step in rest:
            if all(each in placed for each in step.depends_on):
                placed[step.id] = None
        rest = [step for step in rest if step.id not in placed]
    return list(placed)
