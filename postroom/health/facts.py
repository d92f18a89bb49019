"""What a health check looks at, read from the book and the queues. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from postroom.aws.counts import Count, queue_counts
from postroom.ledger import Book, State
from postroom.ledger.clock import from_iso
from postroom.ledger.dynamo import plain_item, query, wire, wire_item
from postroom.ledger.entities import NOUNS
from postroom.ledger.leases import TAKE_OVER
from postroom.ledger.rows import Row
from postroom.tasks.job_book import Jobs, at_once

MINUTE, HOUR = 60_000, 3_600_000
LOOK_BACK = 24 * HOUR
JOBS = ("mail", "edit", "task", "change")
MOVES = ("Processing Started", "Completed", "Failed", "Timeout", "Refused")
SENSOR = "sign:sensor"
QUEUES = "sign:queues"


@dataclass(frozen=True)
class Working:
    """Work that somebody holds."""

    key: str
    job: str
    begun_at: int
    last_sign: int
    attempts: int = 1
    run_id: str | None = None


@dataclass(frozen=True)
class Facts:
    """The post room at one moment; times in ms since the epoch."""

    now: int
    working: Sequence[Working] = ()
    waiting: int = 0  # pieces of work in the book that nobody holds
    oldest_waiting: int | None = None
    queues: Mapping[str, Count] = field(default_factory=dict)
    untouched_since: Mapping[str, int] = field(default_factory=dict)  # queues that were never seen empty since
    moved: Mapping[str, int] = field(default_factory=dict)  # of these, when work like theirs last began or ended
    dead_letters: int = 0
    last_success: int | None = None  # in the last 24 hours
    failures: Sequence[str] = ()  # what failed in the last hour, each once
    failures_a_day: int = 0
    sensor_sign: int | None = None
    owing: Sequence[tuple[str, int]] = ()  # jobs that owe a step, since when nothing has happened to them
    late_runs: Sequence[tuple[str, int]] = ()  # name of the flow, since when
    silent_pools: Sequence[str] = ()  # pools without a worker that reports
    prefect_answers: bool = True


def gather(book: Book, *, dead_letters: int) -> Facts:
    """All that can be known without Prefect."""
    now = book.clock.now_ms()
    rows = [row for job in JOBS for row in open_rows(book, job)]
    idle = [row for row in rows if row.state is State.WAITING and row.effective_until <= now]
    queues = queue_counts(book.names.prefix)
    untouched = _untouched(book, queues, now)
    failures = _failures(book, now)
    sensor = book.dynamodb.get_item(TableName=book.names.leases, Key={"key": wire(SENSOR)}).get("Item")
    return Facts(
        now=now,
        working=[_working(book, row) for row in rows if row.state is State.WORKING],
        waiting=len(idle),
        oldest_waiting=min((row.entered_at for row in idle), default=None),
        queues=queues,
        untouched_since=untouched,
        moved=_moved(book, untouched),
        dead_letters=max(dead_letters, sum(count.dead for count in queues.values())),
        last_success=_last_success(book, now),
        failures=[each for each, at in failures.items() if at >= now - HOUR],
        failures_a_day=len(failures),
        owing=_owing(book),
        sensor_sign=plain_item(sensor)["touched_at"] if sensor else None,
    )


def open_rows(book: Book, job: str) -> list[Row]:
    """Everything of a job that has not ended, page after page."""
    found = query(
        book.dynamodb,
        TableName=book.names.leases,
        IndexName="open",
        KeyConditionExpression="#open = :job",
        ExpressionAttributeNames={"#open": "open"},
        ExpressionAttributeValues={":job": wire(job)},
    )
    return [Row.of(item) for item in found]


def sensor_lives(book: Book) -> None:
    """The sensor's sign of life."""
    row = {"key": SENSOR, "job": "sign", "state": "waiting", "touched_at": book.clock.now_ms()}
    book.dynamodb.put_item(TableName=book.names.leases, Item=wire_item(row))


def _working(book: Book, row: Row) -> Working:
    last = row.effective_until - int(TAKE_OVER * book.leases.promise * 1000)  # a beat sets it so far ahead
    return Working(row.key, row.job, row.touched_at, last, row.attempts, row.run_id)


def _untouched(book: Book, queues: Mapping[str, Count], now: int) -> dict[str, int]:
    """Since when each queue had letters at every look. SQS itself tells an age only to its metrics."""
    stored = book.dynamodb.get_item(TableName=book.names.leases, Key={"key": wire(QUEUES)}).get("Item")
    before = plain_item(stored)["since"] if stored else {}
    since = {name: int(before.get(name, now)) for name, count in queues.items() if count.waiting}
    row = {"key": QUEUES, "job": "sign", "state": "waiting", "since": since, "touched_at": now}
    book.dynamodb.put_item(TableName=book.names.leases, Item=wire_item(row))
    return since


def _moved(book: Book, queues: Iterable[str]) -> dict[str, int]:
    """When work of a queue's kind last began or ended. A queue that is held back has letters however fast they go."""
    found: dict[str, int] = {}
    for name in queues:
        noun = {book.names.tasks_queue: "Task", book.names.mail_queue: "Mail"}.get(name)
        newest = [_newest(book, f"{noun} {what}") for what in MOVES] if noun else []
        if seen := [at for at in newest if at is not None]:
            found[name] = max(seen)
    return found


def _owing(book: Book) -> list[tuple[str, int]]:
    jobs, found = Jobs(book), []
    for job_id in jobs.open():
        if (job := jobs.find(job_id)) is not None:
            seen = jobs.standing(job)
            if job.owes(seen, at_once(book.settings)):
                found.append((job_id, job.quiet_since(seen)))
    return found


def _last_success(book: Book, now: int) -> int | None:
    newest = [_newest(book, f"{noun} Completed") for noun in NOUNS.values()]
    return max((at for at in newest if at is not None and at >= now - LOOK_BACK), default=None)


def _newest(book: Book, event_type: str) -> int | None:
    found = query(
        book.dynamodb,
        TableName=book.events.table,
        IndexName="GSI4",
        KeyConditionExpression="GSI4PK = :e",
        ExpressionAttributeValues={":e": wire(f"TENANT#{book.events.tenant}#EVENT#{event_type}")},
        ScanIndexForward=False,
        Limit=1,
        Total=1,
    )
    return next((from_iso(item["at"]) for item in found), None)


def _failures(book: Book, now: int) -> dict[str, int]:
    """What failed for good in the last day, with its newest time. What was refused, cancelled or preempted ended in
    order; a dead letter tells of the same failure once more, and counts once."""
    found: dict[str, int] = {}
    for what in (f"{noun} {end}" for noun in NOUNS.values() for end in ("Failed", "Timeout")):
        for event in book.events.of_type(what, since_ms=now - LOOK_BACK):
            found[event.entity] = max(event.at_ms, found.get(event.entity, 0))
    return found
