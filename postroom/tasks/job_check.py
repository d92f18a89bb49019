"""A job's tasks, checked as tasks before the job is entered: what would fail for certain is refused at once."""

from __future__ import annotations

from collections.abc import Iterable

from postroom.errors import BadInput, Missing
from postroom.tasks.definitions import Definitions
from postroom.tasks.job_plan import Step
from postroom.tasks.task import job_of, parents_named, read_task


def check_tasks(steps: Iterable[Step], definitions: Definitions | None = None) -> None:
    """Raises BadInput naming the task and what is wrong with it; definitions are looked up."""
    known = definitions or Definitions()
    for step in steps:
        try:
            task = known.applied(read_task(step.task))
            for parent in parents_named(task):
                if parent not in step.depends_on:
                    raise BadInput(f"{{{{parents.{parent}}}}} names no task that this one depends on")
            if not parents_named(task):  # what parents answer is not known yet
                job_of(task, step.id, parents={})
        except (BadInput, Missing) as error:
            raise BadInput(f"task {step.id!r}: {error}") from None
