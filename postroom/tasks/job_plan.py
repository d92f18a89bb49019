"""A job: tasks, and which of them wait for which. What can't be carried out is refused here, and the place named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from postroom.agent.prompt import placeholders
from postroom.errors import BadInput
from postroom.tasks.storable import check_storable

MOST_TASKS = 50
ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
KINDS = {"mail", "task", "change", "edit", "house", "job"}  # a run's tag `job:{…}` has two meanings; keep them apart


@dataclass(frozen=True)
class Step:
    """One task of a job: the task as its sender wrote it, and the tasks it waits for."""

    id: str
    depends_on: tuple[str, ...]
    task: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "dependsOn": list(self.depends_on), **self.task}


@dataclass(frozen=True)
class Plan:
    """A checked job: no cycle, nothing missing, at least one task that can begin."""

    job_id: str
    name: str
    steps: tuple[Step, ...]

    def __getitem__(self, task_id: str) -> Step:
        return next(step for step in self.steps if step.id == task_id)

    def with_more(self, more: Iterable[Step]) -> Plan:
        """The plan with tasks added; checked as a whole."""
        return Plan(self.job_id, self.name, checked((*self.steps, *more)))


def request_id(job_id: str, task_id: str) -> str:
    """The id by which a job's task is known everywhere: the same each time, and no two alike."""
    told_apart = hashlib.sha256(f"{job_id}\0{task_id}".encode()).hexdigest()[:16]
    return f"{job_id[:100]}-{task_id[:100]}-{told_apart}"


def read_plan(document: Any, *, job_id: str) -> Plan:
    """The plan that a document describes; `job_id` is used when it names none."""
    if not isinstance(document, Mapping):
        raise BadInput(f"a job is a JSON object with tasks, not {type(document).__name__}")
    given = document.get("jobId", job_id)
    check_job_id(given)
    name = document.get("name", given)
    if not isinstance(name, str) or not 1 <= len(name) <= 200:
        raise BadInput("name: must be a text of 1-200 characters")
    check_storable(name, "name")
    if unknown := sorted(set(document) - {"jobId", "name", "tasks"}):
        raise BadInput(f"{', '.join(map(str, unknown))[:200]}: not known; a job has jobId, name and tasks")
    return Plan(given, name, checked(read_steps(document.get("tasks"))))


def check_job_id(job_id: Any) -> None:
    """Raises BadInput unless it can be a job's id."""
    if not isinstance(job_id, str) or not ID.fullmatch(job_id):
        raise BadInput(f"jobId {str(job_id)[:80]!r} is not 1-128 characters of A-Z, a-z, 0-9, '_' and '-'")
    if job_id in KINDS:
        raise BadInput(f"jobId {job_id!r} is kept for a kind of work; take another")


def read_steps(tasks: Any) -> tuple[Step, ...]:
    """Tasks as they stand in a job's document, each checked by itself."""
    if not isinstance(tasks, list) or not tasks:
        raise BadInput("tasks: must be a list of at least one task")
    if len(tasks) > MOST_TASKS:
        raise BadInput(f"tasks: {len(tasks)} are too many; a job has at most {MOST_TASKS}")
    return tuple(_step(task, f"tasks[{n}]") for n, task in enumerate(tasks))


def _step(task: Any, place: str) -> Step:
    if not isinstance(task, Mapping):
        raise BadInput(f"{place}: must be a JSON object")
    task_id = task.get("id")
    if not isinstance(task_id, str) or not ID.fullmatch(task_id):
        raise BadInput(
            f"{place}.id: {str(task_id)[:80]!r} is not 1-128 characters of A-Z, a-z, 0-9, '_' and '-'"
            if task_id is not None
            else f"{place}.id: is missing"
        )
    wants = task.get("dependsOn", [])
    if not isinstance(wants, list) or not all(isinstance(each, str) for each in wants):
        raise BadInput(f"{place}.dependsOn: must be a list of task ids")
    for forbidden in ("requestId", "jobId", "parents"):
        if forbidden in task:
            raise BadInput(f"{place}.{forbidden}: is given by the job itself")
    rest = {name: value for name, value in task.items() if name not in ("id", "dependsOn")}
    rest.setdefault("name", task_id)
    check_storable(rest, place)
    _check_parents(rest.get("prompt"), wants, place)
    return Step(task_id, tuple(dict.fromkeys(wants)), rest)


def _check_parents(prompt: Any, wants: Sequence[str], place: str) -> None:
    if not isinstance(prompt, str):
        return  # a definition's prompt is looked at when it is known
    for named in placeholders(prompt):
        words = named.split(".")
        if words[0] == "parents" and (len(words) < 2 or words[1] not in wants):
            raise BadInput(f"{place}.prompt: {{{{{named[:120]}}}}} names no task that this one depends on")


def checked(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, if they make a job: ids differ, dependencies exist, there is a root and no cycle."""
    if len(steps) > MOST_TASKS:
        raise BadInput(f"tasks: {len(steps)} are too many; a job has at most {MOST_TASKS}")
    places: dict[str, int] = {}
    for n, step in enumerate(steps):
        if step.id in places:
            raise BadInput(f"tasks[{n}].id: {step.id!r} is already the id of tasks[{places[step.id]}]")
        places[step.id] = n
    for n, step in enumerate(steps):
        for m, wanted in enumerate(step.depends_on):
            if wanted not in places:
                raise BadInput(f"tasks[{n}].dependsOn[{m}]: there is no task {wanted[:128]!r} in this job")
    if circle := _circle({step.id: step.depends_on for step in steps}):
        rooted = "" if any(not step.depends_on for step in steps) else "no task can begin: "
        raise BadInput(f"tasks: {rooted}{' → '.join(circle)} is a cycle")
    return tuple(steps)


def _circle(wants: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The ids along a cycle, first and last the same; None when there is none."""
    done: set[str] = set()
    for start in wants:
        path: list[str] = []
        at: dict[str, int] = {}
        waiting = [(start, iter(wants[start]))] if start not in done else []
        if waiting:
            path, at = [start], {start: 0}
        while waiting:
            here, rest = waiting[-1]
            following = next((each for each in rest if each not in done), None)
            if following is None:
                waiting.pop()
                path.pop()
                at.pop(here, None)
                done.add(here)
            elif following in at:
                return [*path[at[following] :], following]
            else:
                at[following] = len(path)
                path.append(following)
                waiting.append((following, iter(wants[following])))
    return None
