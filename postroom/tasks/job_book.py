"""Jobs in the book: a row `job:{id}`, and beside it the tasks as they were handed in.

    job:{id}            open while it runs; how many parts it has; which tasks are in their n-th attempt
    job:{id}:part:{n}   the tasks of the n-th submission: the job itself (0), then each addition

A part, the change of the row and the event that tells of it are one transaction: an addition is there
as a whole or not at all, and a job can't end while tasks are being added to it. Whether a task is done
is not written here: its own row says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from postroom.errors import BadInput, Missing
from postroom.ledger import Book, Event, State
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, transact, wire, wire_item
from postroom.ledger.rows import Row
from postroom.settings import Settings
from postroom.tasks.job_plan import Plan, Step, read_steps
from postroom.tasks.job_state import Standing, Stands, standing, task_key

MAX_BYTES = 262_144  # of one submission: it has to fit into a row
KEPT_PARTS = 500


def at_once(settings: Settings) -> int:
    """Tasks of one job that are under way together; more would only start machines that wait for their turn."""
    return 2 * settings.task_concurrency


@dataclass(frozen=True)
class Job:
    """A job as the book has it."""

    plan: Plan
    state: State
    parts: int
    again: Mapping[str, int] = field(default_factory=dict)  # which attempt of a task counts
    rounds: int = 0  # how often it was resumed
    told: int = -1  # in which round a failure was last told of
    entered_at: int = 0
    ended_at: int | None = None
    reason: str | None = None
    touched_at: int = 0

    @property
    def id(self) -> str:
        return self.plan.job_id

    def key_of(self, task_id: str) -> str:
        return task_key(self.id, task_id, self.again)

    def next_tasks(self, seen: Standing, at_once: int) -> list[str]:
        """The tasks to be asked for now: so many that not more than `at_once` are under way."""
        room = at_once - len(seen.those(Stands.RUNNING))
        return seen.those(Stands.READY)[: max(0, room)]

    def owes(self, seen: Standing, at_once: int) -> bool:
        """Whether there is something to be done for it."""
        untold = self.told < self.rounds and bool(seen.those(Stands.FAILED))
        return not self.state.terminal and (seen.over or untold or bool(self.next_tasks(seen, at_once)))

    def quiet_since(self, seen: Standing) -> int:
        """When something last happened to it or to one of its tasks."""
        rows = seen.rows.values()
        return max(self.entered_at, self.touched_at, *(max(row.touched_at, row.ended_at or 0) for row in rows))

    def step_key(self, seen: Standing) -> str:
        """The key of the step that what was seen calls for: whoever sees the same asks for the same step."""
        sight = [self.parts, self.rounds, self.told, sorted((task, each.value) for task, each in seen.tasks.items())]
        return f"job:{self.id}:{hashlib.sha256(json.dumps(sight).encode()).hexdigest()[:16]}"


class Jobs:
    """Jobs of one post room."""

    def __init__(self, book: Book) -> None:
        self._book, self._db, self._table = book, book.dynamodb, book.names.leases
        self._read: dict[str, tuple[Step, ...]] = {}  # parts never change

    # handing in

    def create(self, plan: Plan) -> bool:
        """Enters the job; False when the very same one is there already."""
        now = self._book.clock.now_ms()
        row = {
            "key": _key(plan.job_id),
            "job": "job",
            "open": "job",
            "state": State.WAITING.value,
            "effective_until": 0,
            "entered_at": now,
            "touched_at": now,
            "name": plan.name,
            "parts": 1,
            "rounds": 0,
            "told": -1,
            "again": {},
        }
        event = _event(plan.job_id, "Created", name=plan.name, tasks=[step.id for step in plan.steps])
        put: Item = {"TableName": self._table, "Item": wire_item(row)}
        put |= {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": "key"}}
        try:
            self._transact({"Put": put}, self._part(plan.job_id, 0, plan.steps), event)
        except ConditionFailed:
            there = self.read(plan.job_id)
            if (there.plan.name, self._part_of(plan.job_id, 0)) != (plan.name, plan.steps):
                raise BadInput(f"there is another job {plan.job_id!r} already; give this one its own jobId") from None
            return False
        return True

    def add(self, job_id: str, steps: Sequence[Step], *, dry_run: bool = False) -> Plan:
        """The plan with more tasks in it; refused when the job has ended, or the whole would be no job."""
        while True:
            job = self.read(job_id)
            if all(step in job.plan.steps for step in steps):
                return job.plan  # said twice
            if job.state.terminal:
                raise BadInput(f"the job {job_id} has ended ({job.state}); tasks can be added only while it runs")
            plan = job.plan.with_more(steps)
            if dry_run:
                return plan
            event = _event(job_id, "Tasks Added", tasks=[step.id for step in steps])
            change = self._change(
                job_id, "SET #parts = :next, #touched = :now", "attribute_exists(#open) AND #parts = :seen"
            )
            change["ExpressionAttributeNames"] = {"#parts": "parts", "#touched": "touched_at", "#open": "open"}
            change["ExpressionAttributeValues"] = self._values(next=job.parts + 1, seen=job.parts)
            try:
                self._transact({"Update": change}, self._part(job_id, job.parts, steps), event)
            except ConditionFailed:
                continue  # somebody else added some, or it ended: look again
            return plan

    def _part(self, job_id: str, number: int, steps: Sequence[Step]) -> Item:
        text = json.dumps([step.as_json() for step in steps], ensure_ascii=False)
        if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_BYTES:
            raise BadInput(f"tasks: {size} bytes are too many; one submission has at most {MAX_BYTES}")
        item = wire_item({"key": f"{_key(job_id)}:part:{number}", "job": "job", "state": "part", "tasks": text})
        return {"Put": {"TableName": self._table, "Item": item}}

    # looking

    def find(self, job_id: str) -> Job | None:
        item = self._get(_key(job_id))
        return self._job(job_id, item) if item is not None and "parts" in item else None

    def read(self, job_id: str) -> Job:
        """The job; Missing when there is none."""
        job = self.find(job_id)
        if job is None:
            raise Missing(f"there is no job {job_id!r}")
        return job

    def open(self) -> Iterator[str]:
        """Ids of the jobs that have not ended."""
        for row in self._book.leases.unpaid("job"):
            yield row.key.removeprefix("job:")

    def newest(self, limit: int = 50) -> list[Event]:
        """The events of creation of the newest jobs, newest first."""
        events = self._book.events
        found = query(
            self._db,
            TableName=events.table,
            IndexName="GSI4",
            KeyConditionExpression="GSI4PK = :e",
            ExpressionAttributeValues={":e": wire(f"TENANT#{events.tenant}#EVENT#Job Created")},
            ScanIndexForward=False,
            Total=limit,
        )
        told = (json.loads(item["properties"]) for item in found)
        return [Event("Job Created", f"JOB#{each['job']}", "job", each) for each in told]

    def standing(self, job: Job) -> Standing:
        """Where the job's tasks stand now."""
        keys = {job.key_of(step.id): step.id for step in job.plan.steps}
        rows = self._book.leases.find_many(list(keys))
        return standing(job.plan, {keys[key]: row for key, row in rows.items()})

    def _job(self, job_id: str, item: Item) -> Job:
        steps = tuple(step for n in range(item["parts"]) for step in self._part_of(job_id, n))
        row = Row.of(item)
        return Job(
            Plan(job_id, item.get("name", job_id), steps),
            row.state,
            item["parts"],
            item.get("again", {}),
            item.get("rounds", 0),
            item.get("told", -1),
            row.entered_at,
            row.ended_at,
            row.reason,
            row.touched_at,
        )

    def _part_of(self, job_id: str, number: int) -> tuple[Step, ...]:
        key = f"{_key(job_id)}:part:{number}"
        if key not in self._read:
            item = self._get(key)
            if item is None:
                raise Missing(f"part {number} of the job {job_id} is gone")
            if len(self._read) >= KEPT_PARTS:
                self._read.clear()
            self._read[key] = read_steps(json.loads(item["tasks"]))
        return self._read[key]

    def _get(self, key: str) -> Item | None:
        answer = self._db.get_item(TableName=self._table, Key={"key": wire(key)}, ConsistentRead=True)
        return plain_item(answer["Item"]) if answer.get("Item") else None

    # moving on

    def tell_failure(self, job: Job, seen: Standing) -> bool:
        """Tells once in each round that something failed; whether it was told now."""
        if job.told >= job.rounds or not seen.those(Stands.FAILED):
            return False
        change = self._change(job.id, "SET #told = :round", "attribute_exists(#open) AND #told < :round")
        change["ExpressionAttributeNames"] = {"#told": "told", "#open": "open"}
        change["ExpressionAttributeValues"] = self._values(now=False, round=job.rounds)
        event = _event(job.id, "Failure Detected", failed=seen.reasons(), blocked=seen.those(Stands.BLOCKED))
        return self._if_so({"Update": change}, event)

    def finish(self, job: Job, seen: Standing) -> bool:
        """Ends a job in which nothing runs or can begin; False when it moved on meanwhile, or has ended."""
        if not seen.over:
            return False
        change = self._change(
            job.id,
            "SET #state = :state, #ended = :now, #touched = :now, #reason = :reason REMOVE #open, #until",
            "attribute_exists(#open) AND #parts = :parts AND #rounds = :rounds",
        )
        names = {"state": "state", "ended": "ended_at", "touched": "touched_at", "reason": "reason", "open": "open"}
        names |= {"until": "effective_until", "parts": "parts", "rounds": "rounds"}
        change["ExpressionAttributeNames"] = {f"#{short}": name for short, name in names.items()}
        failed = seen.those(Stands.FAILED)
        change["ExpressionAttributeValues"] = self._values(
            state=(State.DONE if seen.well else State.FAILED).value,
            reason=None if seen.well else f"failed: {', '.join(failed)}"[:1000],
            parts=job.parts,
            rounds=job.rounds,
        )
        event = _event(
            job.id, "Completed", status="completed" if seen.well else "failed", **seen.counts(), failed_tasks=failed
        )
        return self._if_so({"Update": change}, event)

    def resume(self, job_id: str) -> tuple[Job, list[str]]:
        """The job, open again, and the tasks that get a new attempt: those that had failed. The rest is kept.

        One that owes a step goes on too: the step may have been cancelled, and another round asks for another.
        """
        while True:
            job = self.read(job_id)
            seen = self.standing(job)
            failed = seen.those(Stands.FAILED)
            if not failed and job.state is not State.FAILED and not job.owes(seen, at_once(self._book.settings)):
                return job, []
            change = self._change(
                job_id,
                "SET #state = :waiting, #open = :job, #until = :zero, #touched = :now, #rounds = :next, "
                "#again = :again REMOVE #ended, #reason",
                "#rounds = :seen AND #parts = :parts",
            )
            names = {"state": "state", "open": "open", "until": "effective_until", "touched": "touched_at"}
            names |= {"rounds": "rounds", "again": "again", "ended": "ended_at", "reason": "reason", "parts": "parts"}
            change["ExpressionAttributeNames"] = {f"#{short}": name for short, name in names.items()}
            change["ExpressionAttributeValues"] = self._values(
                waiting=State.WAITING.value,
                job="job",
                zero=0,
                next=job.rounds + 1,
                again={**job.again, **{task: self._next(job, task) for task in failed}},
                seen=job.rounds,
                parts=job.parts,
            )
            if self._if_so({"Update": change}, _event(job_id, "Resumed", tasks=failed)):
                return self.read(job_id), failed

    def _next(self, job: Job, task_id: str) -> int:
        """The attempt after the newest that the book knows of (others may have asked for one as well)."""
        number = job.again.get(task_id, 0) + 1
        while self._book.leases.find(task_key(job.id, task_id, {task_id: number})) is not None:
            number += 1
        return number

    def give_up(self, job: Job, reason: str) -> bool:
        """Ends a job that can't be moved on, and tells of the failure if that was not told yet."""
        now = self._book.clock.now_ms()
        change = self._change(
            job.id,
            "SET #state = :state, #ended = :now, #reason = :reason, #told = :rounds REMOVE #open",
            "attribute_exists(#open) AND #told = :told",
        )
        names = {"#state": "state", "#ended": "ended_at", "#reason": "reason", "#open": "open", "#told": "told"}
        change["ExpressionAttributeNames"] = names
        change["ExpressionAttributeValues"] = self._values(
            state=State.FAILED.value, reason=reason, rounds=job.rounds, told=job.told
        )
        alarm = [_event(job.id, "Failure Detected", reason=reason)] if job.told < job.rounds else []
        ended = replace(_event(job.id, "Completed", status="failed", reason=reason), at_ms=now + 1)  # after the alarm
        return self._if_so({"Update": change}, *(replace(each, at_ms=now) for each in alarm), ended)

    # writing

    def _change(self, job_id: str, expression: str, condition: str) -> Item:
        key = {"key": wire(_key(job_id))}
        return {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": expression,
            "ConditionExpression": condition,
        }

    def _values(self, *, now: bool = True, **values: Any) -> Item:
        if now:
            values["now"] = self._book.clock.now_ms()
        return {f":{name}": wire(value) for name, value in values.items()}

    def _transact(self, *writes: Item | Event) -> None:
        events = self._book.events
        transact(self._db, [events.put(events.stamped(each)) if isinstance(each, Event) else each for each in writes])

    def _if_so(self, change: Item, *events: Event) -> bool:
        try:
            self._transact(change, *events)
        except ConditionFailed:
            return False
        return True


def _key(job_id: str) -> str:
    return f"job:{job_id}"


def _event(job_id: str, what: str, **properties: Any) -> Event:
    return Event(f"Job {what}", f"JOB#{job_id}", "job", {"job": job_id, **properties})
