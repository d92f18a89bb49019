"""The `literal` driver, for machines without a key: nobody thinks here, and the result says so.

A mail goes onto the site as it was written. A task gets a recorded example for an answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from postroom.agent import page as pages
from postroom.agent.answer import mismatch
from postroom.agent.confine import Bounds, Denied
from postroom.agent.example import example_of
from postroom.agent.job import Instruction, Job, OnLine, OnProgress, Progress, Result, error_of
from postroom.agent.page import Layout
from postroom.agent.trace import Trace
from postroom.errors import BadInput, PostroomError

PUT_AS_WRITTEN = "No agent worked on this: the mail was put onto the site as it was written (driver `literal`)."
RECORDED = "No agent worked on this: the answer is a recorded example (driver `literal`), not a result."
MADE_UP = "No agent worked on this: the answer is an example made from the output schema (driver `literal`)."
_NEWS = "src/data/news.json"
_LAYOUTS = ("Page", "Layout", "BaseLayout", "Base", "Main")


async def run_literal(
    job: Job,
    *,
    on_line: OnLine | None = None,
    on_progress: OnProgress | None = None,
    stop: asyncio.Event | None = None,
) -> Result:
    """The mails of the job as pages of the site; without mails, the recorded example."""
    work = _Work(job, on_line, on_progress)
    try:
        if not job.instructions:
            return work.answer()
        if job.workspace is None:
            raise BadInput("an edit needs a workspace")
        for one in job.instructions:
            if stop is not None and stop.is_set():
                return work.result("interrupted", error=error_of("interrupted"))
            await asyncio.to_thread(work.put, Site(job.workspace, job.protected), one)
    except PostroomError as error:
        return work.result("failed", error=error)
    return work.result("done", output=work.told(), text=work.told()["summary"], note=PUT_AS_WRITTEN)


class _Work:
    def __init__(self, job: Job, on_line: OnLine | None, on_progress: OnProgress | None) -> None:
        self.job, self._on_line, self._on_progress = job, on_line, on_progress
        self.trace = Trace(model="literal")
        self.turns = 0
        self.done: list[tuple[str, str]] = []  # title, path on the site
        self.alts: dict[str, str] = {}
        self.left_out: list[str] = []

    def put(self, site: Site, one: Instruction) -> None:
        """One mail: its page, and its line in the list of news."""
        href, source = site.put_page(one)
        self._wrote(source)
        if site.put_news(one, href):
            self._wrote(_NEWS)
        else:
            self.left_out.append(f"{_NEWS} could not be read, so the list of news was left as it is")
        self.turns += 1
        title = pages.title_of(one)
        self.done.append((title, href))
        for medium in one.media:
            if not pages.usable(medium):
                self.left_out.append(f"{medium.filename!r} could not be used")
            elif medium.kind == "image":
                self.alts[medium.path] = pages.alt_of(medium, title)

    def told(self) -> dict[str, Any]:
        """The structured result of an edit."""
        said = "; ".join(f"“{title}” is at {href}" for title, href in self.done)
        summary = " ".join([PUT_AS_WRITTEN, f"{said}.", *(f"{one}." for one in self.left_out)])
        return {
            "summary": summary,
            "pages": [href for _, href in self.done],
            "questions": [],
            "alt_texts": dict(self.alts),
        }

    def answer(self) -> Result:
        """A task's answer: the recorded example, else one made from the schema."""
        schema, recorded = self.job.schema, self.job.example
        note = RECORDED if recorded is not None else MADE_UP
        if schema is None:
            text = recorded if isinstance(recorded, str) else json.dumps(recorded) if recorded is not None else ""
            return self.result("done", text=text or RECORDED, note=RECORDED)
        output = recorded if recorded is not None else example_of(schema)
        if wrong := mismatch(output, schema):
            raise BadInput(f"the recorded example does not match the output schema: {wrong}")
        return self.result("done", output=output, text=note, note=note)

    def result(self, outcome: Any, **more: Any) -> Result:
        self.trace.seconds = self.trace.now()
        if more.get("note"):
            self._say(more["note"])
        return Result(outcome=outcome, driver="literal", turns=self.turns, trace=self.trace, **more)

    def _wrote(self, path: str) -> None:
        id = f"literal-{len(self.trace.calls) + 1}"
        self.trace.note({"event": "tool", "id": id, "name": "Write", "input": {"file_path": path}})
        self.trace.note({"event": "tool-end", "id": id, "ok": True})
        self._say(f"Write {path}")
        if self._on_progress is not None:
            self._on_progress(Progress("tool", self.trace.now(), self.turns, "Write"))

    def _say(self, line: str) -> None:
        if self._on_line is not None:
            self._on_line(f"[{self.job.correlation}] {line}")


class Site:
    """The files of a site, written within the same bounds as an agent's."""

    def __init__(self, workspace: Path, protected: tuple[str, ...] = ()) -> None:
        self.root = workspace.resolve()
        self._bounds = Bounds(self.root, frozenset({"Read", "Write"}), protected)

    def put_page(self, one: Instruction) -> tuple[str, str]:
        """Where the mail's page is now: on the site, and in the workspace. A mail put twice has one page."""
        mark = hashlib.sha256(one.message_id.encode()).hexdigest()[:16]
        slug, taken = pages.slug_of(pages.title_of(one)), 1
        name = slug
        while (found := self._read(f"src/pages/news/{name}.astro")) is not None and f"// letter {mark}\n" not in found:
            taken += 1
            name = f"{slug}-{taken}"
        source = f"src/pages/news/{name}.astro"
        self._write(source, pages.render(one, source, self._layout(), mark))
        return f"/news/{name}/", source

    def put_news(self, one: Instruction, href: str) -> bool:
        """Is the mail in the list of news now? A list that can't be read is left as it is."""
        try:
            news = json.loads(self._read(_NEWS) or "[]")
        except ValueError:
            return False
        if not isinstance(news, list):
            return False
        others = [item for item in news if not (isinstance(item, dict) and item.get("href") == href)]
        entry = {
            "title": pages.title_of(one),
            "date": f"{one.received:%Y-%m-%d}",
            "href": href,
            "summary": pages.summary_of(one),
        }
        at = next((n for n, item in enumerate(others) if _day(item) <= entry["date"]), len(others))
        others.insert(at, entry)
        self._write(_NEWS, json.dumps(others, ensure_ascii=False, indent=2) + "\n")
        return True

    def _layout(self) -> Layout:
        if self._read("src/layouts/News.astro") is not None:
            return Layout("src/layouts/News.astro", shows_letters=True)
        for name in _LAYOUTS:
            path = f"src/layouts/{name}.astro"
            if "<slot" in (self._read(path) or ""):
                return Layout(path)
        return Layout()

    def _read(self, path: str) -> str | None:
        target = self._at("Read", path)
        return target.read_text(encoding="utf-8", errors="replace") if target.is_file() else None

    def _write(self, path: str, text: str) -> None:
        target = self._at("Write", path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.replace(target)

    def _at(self, tool: str, path: str) -> Path:
        try:
            return Path(self._bounds.allow(tool, {"file_path": path})["file_path"])
        except Denied as denied:
            raise BadInput(f"the site's {path} can't be used: {denied}") from None


def _day(item: Any) -> str:
    return str(item.get("date", "")) if isinstance(item, dict) else ""
