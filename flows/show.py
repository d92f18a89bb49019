"""What operators see of a run in the Prefect UI. Words of strangers are shown as words, never as markup."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, ParamSpec

from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact, acreate_table_artifact

from postroom.agent.job import Result
from postroom.agent.trace import rows, summary_log
from postroom.errors import classify, sanitise
from postroom.ledger.book import Book
from postroom.ledger.instructions import Instruction
from postroom.mail.letter import Letter
from postroom.media.result import MediaResult

log = logging.getLogger("postroom.flows")
_SLUG = re.compile(r"[^a-z0-9]+")
_SHOWN = 20_000
_LARGEST_PICTURE = 400_000
SHOW_SECONDS = 10.0  # Prefect's client is patient with a server that is away; an edit is not
P = ParamSpec("P")


def decoration(shown: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """What is only looked at costs no attempt and holds nobody up when it can't be shown."""

    @functools.wraps(shown)
    async def show(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            async with asyncio.timeout(SHOW_SECONDS):
                await shown(*args, **kwargs)
        except Exception as error:
            log.warning("%s can't be shown in Prefect: %s", shown.__name__, classify(error))

    return show


def slug(text: str) -> str:
    """The key of an artifact."""
    return _SLUG.sub("-", text.lower()).strip("-")[:200]


def quoted(text: str) -> str:
    """Somebody's text as a block in which nothing is markup: no link, no picture, no HTML."""
    kept = "".join(c for c in sanitise(text, limit=_SHOWN) if c in "\n\t" or c.isprintable())
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", kept)), default=0))
    return f"{fence}text\n{kept}\n{fence}"


@decoration
async def letter(found: Letter) -> None:
    """The mail: sender, subject, instruction."""
    lines = [
        "## A mail\n",
        quoted(f"From:    {found.from_}\nSubject: {found.subject}\nSite:    {found.project}+{found.user}"),
        "### Instruction\n",
        quoted(found.instruction),
    ]
    if found.warnings:
        lines += ["### Remarks\n", quoted("\n".join(found.warnings))]
    await acreate_markdown_artifact(key=slug(f"mail-{found.message_id}"), markdown="\n\n".join(lines))


@decoration
async def attachments(found: Letter, media: Sequence[MediaResult]) -> None:
    """What came with it: sizes before and after."""
    if not media:
        return
    sizes = {a.filename: a.size for a in found.attachments}
    table = [
        {
            "name": escape(result.filename),
            "kind": result.kind,
            "received": sizes.get(result.filename, 0),
            "AVIF or document": result.files.get("master.avif") or next(iter(result.files.values()), 0),
            "fallback": result.files.get("master.jpg") or result.files.get("master.png") or "",
            "reused": "yes" if result.reused else "",
            "remark": escape("; ".join(result.warnings)),
        }
        for result in media
    ]
    await acreate_table_artifact(key=slug(f"attachments-{found.message_id}"), table=table)


@decoration
async def edit(key: str, url: str, patch: str, pages: Sequence[str], picture: bytes | None = None) -> None:
    """Where to look, and what changed."""
    await acreate_link_artifact(key=slug(f"{key}-site"), link=url, link_text="the edit site")
    touched = "\n".join(pages) or "(none)"
    parts = ["## Pages\n", quoted(touched), "## What changed\n", quoted(patch)]
    if picture is not None and len(picture) <= _LARGEST_PICTURE:
        parts.insert(0, f"![the page](data:image/png;base64,{base64.b64encode(picture).decode()})")
    await acreate_markdown_artifact(key=slug(f"{key}-diff"), markdown="\n\n".join(parts))


@decoration
async def usage(key: str, result: Result) -> None:
    """What the agent used."""
    row = {
        "driver": result.driver,
        "ended": result.outcome,
        "turns": result.turns,
        "input tokens": result.usage.input,
        "output tokens": result.usage.output,
        "tokens from the cache": result.usage.cache_read,
        "tokens into the cache": result.usage.cache_write,
        "cost (USD)": round(result.cost_usd, 4),
        "refused": len(result.trace.refused),
    }
    await acreate_table_artifact(key=slug(f"{key}-agent"), table=[row])
    steps = [{name: escape(sanitise(str(value), limit=500)) for name, value in step.items()} for step in rows(result)]
    if steps:
        await acreate_table_artifact(key=slug(f"{key}-trace"), table=steps[:500])


@decoration
async def history(book: Book, project: str, last: int = 40) -> None:
    """The site's timeline: what was said, when it was taken up, cut short, and done."""
    said = (await asyncio.to_thread(book.instructions.of_project, project))[-last:]
    cuts = await asyncio.to_thread(book.threads.interruptions_of, project)
    lines = [
        *(line for one in said for line in _times_of(one)),
        *((int(str(cut["at"]).partition("#")[0]), "preempted", str(cut["edit"]), str(cut["reason"])) for cut in cuts),
    ]
    table = [
        {"when": _moment(at), "what": what, "which": escape(which), "remark": escape(sanitise(remark, limit=300))}
        for at, what, which, remark in sorted(lines, reverse=True)
    ]
    await acreate_table_artifact(key=slug(f"site-{project}"), table=table, description=f"The history of {project}")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _times_of(one: Instruction) -> Iterator[tuple[int, str, str, str]]:
    yield one.received_at, "received", one.message_id, f"{one.sender}: {one.subject}"
    if one.taken_at and one.edit:
        yield one.taken_at, "running", one.message_id, f"in {one.edit}"
    if one.ended_at:
        if by := one.outcome.get("absorbed_by"):
            yield one.ended_at, "absorbed", one.message_id, f"by {by}"
        yield one.ended_at, one.status, one.message_id, one.reason or ", ".join(one.outcome.get("pages") or ())


@decoration
async def task(request_id: str, result: Result) -> None:
    """What the agent did, step by step; and its summary."""
    steps = [{name: escape(str(value)) for name, value in row.items() if value is not None} for row in rows(result)]
    whole: dict[str, Any] = {
        "at": 0,
        "what": "answer",
        "on": "",
        "seconds": result.trace.seconds,
        "result": result.outcome,
    }
    await acreate_table_artifact(
        key=slug(f"task-{request_id}"),
        table=[*steps[:500], whole],
        description=quoted(summary_log(result, correlation=f"task:{request_id}")),
    )


@decoration
async def notice(change_id: str, code: str, report: Mapping[str, Any]) -> None:
    """Whom a customer's notice reached, and whom it did not, with the reasons."""
    counts = {name: value for name, value in report.items() if isinstance(value, (int, str))}
    reasons = report.get("reasons") or {}
    table = [{"": escape(name), " ": escape(str(value))} for name, value in {**counts, **reasons}.items()]
    await acreate_table_artifact(key=slug(f"notice-{change_id}-{code}"), table=table)
