"""`postroom job`: DAGs of tasks."""

from __future__ import annotations

import asyncio
import json as documents
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import say, whereabouts
from postroom.errors import BadInput, Missing, PostroomError, TimedOut, Unparsable, exit_code_of

app = typer.Typer(no_args_is_help=True)

JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job, as `job submit` printed it.")]
File = Annotated[str, typer.Argument(metavar="FILE|-", help="A JSON document; - reads it from standard input.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, say what would be done, and do nothing.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and say how it ended.")]
Seconds = Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait at most.")]


@app.callback()
def job() -> None:
    """DAGs of agent tasks."""


@app.command()
def submit(
    file: File, wait: Wait = False, timeout: Seconds = 3600, dry_run: DryRun = False, json: Json = False
) -> None:
    """Hand in a job; its first tasks begin at once."""
    from postroom.tasks.job_check import check_tasks
    from postroom.tasks.job_plan import read_plan

    document = read_document(file)
    plan = read_plan(document, job_id=f"job-{time.strftime('%Y%m%d', time.gmtime())}-{secrets.token_hex(5)}")
    whereabouts.require()
    check_tasks(plan.steps)
    if dry_run:
        say.note(f"The job {plan.job_id} would be handed in: {len(plan.steps)} tasks.")
        say.data({"job_id": plan.job_id, "tasks": [step.id for step in plan.steps]})
        return
    if not jobs().create(plan):
        say.note(f"The job {plan.job_id} was handed in before; nothing is begun twice.")
    move_on(plan.job_id)
    finish_or_show(plan.job_id, wait, timeout, json)


@app.command()
def add(job_id: JobId, file: File, dry_run: DryRun = False, json: Json = False) -> None:
    """Add tasks to a job while it runs: a document with `tasks`, or a list of them."""
    from postroom.tasks.job_check import check_tasks
    from postroom.tasks.job_plan import read_steps

    document = read_document(file)
    if isinstance(document, dict) and set(document) != {"tasks"}:
        raise BadInput(f"{file}: to add tasks give a list of them, or an object with nothing but `tasks`")
    steps = read_steps(document["tasks"] if isinstance(document, dict) else document)
    whereabouts.require()
    check_tasks(steps)
    plan = jobs().add(job_id, steps, dry_run=dry_run)
    if dry_run:
        say.note(f"The job {job_id} would have {len(plan.steps)} tasks.")
        say.data({"job_id": job_id, "tasks": [step.id for step in plan.steps]})
        return
    move_on(job_id)
    tell(job_id, json)


@app.command()
def resume(
    job_id: JobId, wait: Wait = False, timeout: Seconds = 3600, dry_run: DryRun = False, json: Json = False
) -> None:
    """Go on with a job after a fix: what failed, and what waits for it; nothing that is done is done again."""
    from postroom.tasks.job_state import Stands

    whereabouts.require()
    if dry_run:
        found = jobs().read(job_id)
        failed = jobs().standing(found).those(Stands.FAILED)
        say.note(f"A new attempt would be made at: {', '.join(failed) or 'nothing'}.")
        say.data({"job_id": job_id, "tasks": list(failed)})
        return
    _, again = jobs().resume(job_id)
    say.note(f"A new attempt is made at: {', '.join(again) or 'nothing'}.")
    move_on(job_id)
    finish_or_show(job_id, wait, timeout, json)


@app.command()
def show(job_id: JobId, json: Json = False) -> None:
    """Say where a job stands."""
    whereabouts.require()
    tell(job_id, json)


@app.command("list")
def list_(
    json: Json = False, limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 50
) -> None:
    """The newest jobs."""
    whereabouts.require()
    found = []
    for event in jobs().newest(limit):
        told = look(str(event.properties["job"]))
        found.append({name: told[name] for name in ("job_id", "name", "status", "counts", "created_at")})
    if json:
        say.data(found)
        return
    rows = [(each["job_id"], each["name"], each["status"], _counted(each["counts"])) for each in found]
    say.table(("job", "name", "status", "tasks"), rows)


def jobs() -> Any:
    from postroom.ledger.book import open_book
    from postroom.tasks.job_book import Jobs

    return Jobs(open_book())


def move_on(job_id: str) -> None:
    """Ask for the next step now. If Prefect is away the sensor asks later: the job is safe in the book."""
    from flows.jobs import ask_for_step
    from postroom.errors import classify
    from postroom.ledger.book import open_book

    try:
        whereabouts.require_prefect()
        asyncio.run(ask_for_step(open_book(), job_id))
    except Exception as error:
        ours: PostroomError = classify(error)
        if not ours.retryable and not isinstance(ours, Missing):
            raise
        say.note(f"The job is in the book, and begins as soon as it can: {ours}")


def look(job_id: str) -> dict[str, Any]:
    """The job as one document."""
    from postroom.ledger.clock import iso
    from postroom.tasks.job_plan import request_id

    found = jobs().read(job_id)
    seen = jobs().standing(found)
    reasons = seen.reasons()
    return {
        "job_id": job_id,
        "name": found.plan.name,
        "status": found.state.value if found.state.terminal else "running",
        "reason": found.reason,
        "counts": seen.counts(),
        "created_at": iso(found.entered_at),
        "ended_at": iso(found.ended_at) if found.ended_at else None,
        "resumed": found.rounds,
        "tasks": [
            {
                "id": step.id,
                "depends_on": list(step.depends_on),
                "status": seen.tasks[step.id].value,
                "request_id": request_id(job_id, step.id),
                "key": found.key_of(step.id),
                "run": seen.rows[step.id].run_id if step.id in seen.rows else None,
                "attempts": seen.rows[step.id].attempts if step.id in seen.rows else 0,
                "reason": reasons.get(step.id),
                "category": seen.rows[step.id].outcome.get("category") if step.id in seen.rows else None,
            }
            for step in found.plan.steps
        ],
    }


def finish_or_show(job_id: str, wait: bool, seconds: float, as_json: bool) -> None:
    deadline = time.monotonic() + seconds
    while wait and look(job_id)["status"] == "running":
        if time.monotonic() > deadline:
            raise TimedOut(f"the job {job_id} has not ended after {seconds:.0f} s; to look: postroom job show {job_id}")
        time.sleep(0.5)
    tell(job_id, as_json)
    if wait:
        raise typer.Exit(exit_code(look(job_id)))


def exit_code(found: dict[str, Any]) -> int:
    """What the command ends with when the job has ended so: the code that all failed tasks share, else 70."""
    if found["status"] == "done":
        return 0
    codes = {exit_code_of(each["category"]) for each in found["tasks"] if each["status"] == "failed"}
    return codes.pop() if len(codes) == 1 else 70


def tell(job_id: str, as_json: bool) -> None:
    found = look(job_id)
    if as_json:
        say.data(found)
        return
    say.text(f"{found['job_id']}  {found['status']}  {_counted(found['counts'])}")
    rows = [(each["id"], each["status"], ", ".join(each["depends_on"]), each["reason"]) for each in found["tasks"]]
    say.table(("task", "status", "waits for", "reason"), rows)


def read_document(file: str) -> Any:
    """The JSON document of a file, or of standard input."""
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Missing(f"{file} can't be read: {error.strerror}") from None
    try:
        return documents.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unparsable(f"{'standard input' if file == '-' else file} is no JSON: {error}") from None


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
