"""A task as its sender wrote it, checked; and the same with what its definition adds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from postroom.agent.job import Job
from postroom.agent.prompt import placeholders
from postroom.errors import BadInput, explain
from postroom.tasks.schemas import check_schema

REQUEST_ID = r"^[A-Za-z0-9_-]{1,256}$"
NAME = r"^[A-Za-z0-9_-]{1,128}$"
RequestId = Annotated[str, StringConstraints(pattern=REQUEST_ID)]
Name = Annotated[str, StringConstraints(pattern=NAME)]


class _Told(BaseModel):
    """JSON in camelCase, nothing converted, nothing unknown."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls, told: Mapping[str, Any], what: str) -> Any:
        """The document, checked; BadInput naming every field that is wrong, and every one that nobody knows."""
        try:
            return cls.model_validate(dict(told))
        except ValidationError as error:
            raise BadInput(f"{what} is not valid: {_explained(error)}") from None

    def as_json(self) -> dict[str, Any]:
        """As it would be written down again; what was not said is left out."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Limits(_Told):
    """What may be said once, under a name, and again by each task: it wins."""

    prompt: Annotated[str, Field(min_length=1, max_length=200_000)] | None = None
    output_schema: dict[str, Any] = Field(default_factory=dict)
    tools: list[str] = Field(default_factory=list)
    max_turns: Annotated[int, Field(ge=1, le=200)] = 30
    timeout_seconds: Annotated[int, Field(ge=1, le=900)] = 300
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    max_budget_usd: Annotated[float, Field(gt=0, strict=False)] | None = None
    example: Any = None  # a recorded answer, for machines without a model

    @field_validator("output_schema")
    @classmethod
    def _schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if schema:
            check_schema(schema)
        return schema

    @field_validator("tools")
    @classmethod
    def _tools(cls, tools: list[str]) -> list[str]:
        from postroom.agent.confine import FILE_TOOLS, TODO_TOOLS

        if unknown := [tool for tool in tools if tool not in (*FILE_TOOLS, *TODO_TOOLS)]:
            raise ValueError(f"{unknown} are not available; an agent may have {list(FILE_TOOLS)}")
        return tools

    @field_validator("max_budget_usd", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError("should be a number")
        return value


class Definition(Limits):
    """Prompt, schema, tools and limits that tasks refer to by name."""

    description: Annotated[str, Field(max_length=2000)] = ""


class Task(Limits):
    """One queued task. `name` is for people; `definition` names what it builds on."""

    request_id: RequestId | None = None
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    definition: Name | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    job_id: Name | None = None
    depends_on: list[RequestId] = Field(default_factory=list, max_length=50)
    parents: dict[str, RequestId] = Field(default_factory=dict)  # what prompts call a parent → its request id

    @field_validator("parents")
    @classmethod
    def _called(cls, parents: dict[str, str]) -> dict[str, str]:
        if wrong := [name for name in parents if not re.fullmatch(NAME, name)]:
            raise ValueError(f"{[name[:80] for name in wrong]} can't be used in a prompt: A-Z, a-z, 0-9, '_', '-' only")
        return parents

    @property
    def title(self) -> str:
        return self.name or self.definition or ""

    @property
    def waits_for(self) -> dict[str, str]:
        """Request ids of the tasks whose outputs it uses, by the name that its prompt calls them."""
        return {**{one: one for one in self.depends_on if one not in self.parents}, **self.parents}

    def built_on(self, definition: Definition) -> Task:
        """The task with everything that its definition says and it does not."""
        base = {k: v for k, v in definition.as_json().items() if k != "description"}
        whole: Task = Task.read({**base, **self.as_json()}, "the task with its definition")
        return whole

    def complete(self) -> Task:
        """Itself; BadInput when it can't be carried out as it stands."""
        missing = [name for name, value in (("name", self.title), ("prompt", self.prompt)) if not value]
        if missing:
            hint = "" if self.definition else " (or say which definition it builds on)"
            raise BadInput(f"the task is not valid: {' and '.join(missing)}: missing{hint}")
        return self


def read_task(told: Any, *, request_id: str | None = None) -> Task:
    """The task of a message; a requestId inside that differs from the message's own is an error."""
    if not isinstance(told, Mapping):
        raise BadInput(f"the task is no JSON object but {type(told).__name__}")
    task: Task = Task.read(told, "the task")
    if request_id is not None and task.request_id not in (None, request_id):
        raise BadInput(f"requestId differs: the message says {request_id!r}, the task {task.request_id!r}")
    return task


def job_of(task: Task, request_id: str, *, parents: Mapping[str, Any], workspace: Any = None) -> Job:
    """The agent's job of a complete task; BadInput naming every placeholder that has no value."""
    from postroom.agent.briefs import task_job
    from postroom.agent.run import check

    assert task.prompt is not None
    job = task_job(
        task.prompt,
        task.input,
        request_id=request_id,
        parents=parents,
        schema=task.output_schema or None,
        tools=task.tools,
        workspace=workspace,
        max_turns=task.max_turns,
        seconds=task.timeout_seconds,
        max_usd=task.max_budget_usd,
        model=task.model,
        example=task.example,
    )
    if workspace is not None or not task.tools:
        check(job)
    return job


def parents_named(task: Task) -> list[str]:
    """The parents that the prompt of a task speaks of."""
    named = (p.split(".") for p in placeholders(task.prompt or ""))
    return list(dict.fromkeys(parts[1] for parts in named if parts[0] == "parents" and len(parts) > 1))


def _explained(error: ValidationError) -> str:
    unknown = [".".join(str(p) for p in e["loc"]) for e in error.errors() if e["type"] == "extra_forbidden"]
    others = [e for e in error.errors() if e["type"] != "extra_forbidden"]
    said = [f"unknown field{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}"] if unknown else []
    if others:
        said.append(explain(error) if not unknown else _rest(error))
    return "; ".join(said)


def _rest(error: ValidationError) -> str:
    parts = [
        f"{'.'.join(str(p) for p in e['loc'])}: {e['msg'].removeprefix('Value error, ')}"
        for e in error.errors(include_url=False, include_context=False, include_input=False)
        if e["type"] != "extra_forbidden"
    ]
    return "; ".join(parts)
