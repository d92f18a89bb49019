"""A post room under fire: sites, the mails that were sent to them, and the account that is drawn at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.fixtures.room import QUICK, Aws, Room, opened, until

HERE = Path(__file__).parent
ENDED = ("done", "failed", "cancelled")
UNDER_FIRE = QUICK | {
    "POSTROOM_STEP_HOOK": "tests.fixtures.dying:at",
    "PYTHONPATH": f"{HERE / 'inside'}:{HERE.parents[1]}",
    "POSTROOM_BUILD_SECONDS": "25",  # one that hangs is given up while somebody watches
    "POSTROOM_SCREENSHOTS": "false",
    "POSTROOM_DELIVERY_CALL_SECONDS": "3",
    "POSTROOM_DELIVERY_AT_ONCE": "32",
    "POSTROOM_TASK_CONCURRENCY": "20",  # the place of a killed run is free again after a minute only
}


@dataclass
class Account:
    """What must be empty."""

    unfinished: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)  # said, and not on the site
    doubled: list[str] = field(default_factory=list)  # carried out more than once
    failed: dict[str, str] = field(default_factory=dict)  # no fault of ours lasts so long that it must
    unanswered: list[str] = field(default_factory=list)
    answered_twice: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)  # worktrees, processes, leases
    unknown: int = 0  # answers of which nobody can say whether they went out: allowed, and counted

    @property
    def faults(self) -> dict[str, object]:
        return {name: found for name, found in vars(self).items() if found and name != "unknown"}

    def __str__(self) -> str:
        told = {name: len(found) for name, found in vars(self).items() if name != "unknown"}
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in told.items()) + (
            f"; answers unknown: {self.unknown}"
        )


class World:
    def __init__(self, room: Room) -> None:
        self.room = room
        self.urls = room.urls()
        self.aws = Aws(self.urls["aws"])
        self.mails: dict[str, str] = {}  # message id → project
        self.subjects: dict[str, str] = {}
        self.faults = room.data / "faults"
        self.faults.mkdir(exist_ok=True)

    # doing

    def add_site(self, project: str, agent: str = "literal") -> str:
        self.add_sites([project], agent)
        return project

    def add_sites(self, projects: Iterable[str], agent: str = "literal") -> None:
        """As `postroom site add` does, in one process: starting one for each takes longer than the tests."""
        words = ["--domain", "example.com", "--sender", "owner@example.com", "--agent", agent]
        calls = [["site", "add", project, "owner", *words] for project in projects]
        code = (
            "import json, sys\nfrom typer.testing import CliRunner\nfrom cli.main import app\n"
            "for call in json.loads(sys.argv[1]):\n    done = CliRunner().invoke(app, call)\n"
            "    assert done.exit_code == 0, done.output\n"
        )
        run = [sys.executable, "-c", code, json.dumps(calls)]
        done = subprocess.run(run, env=self.room.env, cwd=HERE.parents[1], capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr

    def post(self, project: str, subject: str = "") -> str:
        message_id = uuid.uuid4().hex
        self.mails[message_id] = project
        self.subjects[message_id] = subject or f"note-{message_id[:10]}"
        self.aws.post(message_id, project, self.subjects[message_id])
        return message_id

    def order(self, name: str, what: str | None) -> None:
        """Leave an order for the processes, or take it back."""
        if what is None:
            (self.faults / name).unlink(missing_ok=True)
        else:
            (self.faults / name).write_text(what)

    # looking

    def status(self, message_id: str) -> str:
        row = self.aws.instruction(self.mails[message_id], message_id)
        return str(row["status"]["S"]) if row else "not in the book"

    def open(self) -> dict[str, str]:
        found = self.aws.statuses(self.mails)
        return {message_id: status for message_id, status in found.items() if status not in ENDED}

    def wait(self, seconds: float) -> None:
        until(lambda: not self.open(), seconds, lambda: f"all mails to end; open: {list(self.open().items())[:5]}")

    def runs(self) -> list[psutil.Process]:
        """The processes that carry out a run of the heavy pool."""
        warm = self.room.pids().get("warm")
        if warm is None:
            return []
        try:
            return [each for each in psutil.Process(warm).children() if each.status() != psutil.STATUS_ZOMBIE]
        except psutil.Error:
            return []

    def on_main(self, project: str) -> Counter[str]:
        git = ["git", "-C", str(self.room.data / "sites" / f"{project}.git"), "log", "main"]
        wanted = "--format=%(trailers:key=Instruction,valueonly)"
        return Counter(subprocess.run([*git, wanted], capture_output=True, text=True, check=True).stdout.split())

    def pages(self, project: str) -> str:
        """Everything that visitors of the edit site can read."""
        bucket, found = f"edit.{project}.example.com", []
        for page in self.aws.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            keys = [each["Key"] for each in page.get("Contents", []) if each["Key"].endswith(".html")]
            found += [self.aws.s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys]
        return "\n".join(found)

    def leftovers(self) -> list[str]:
        """What should be gone when nothing is under way on our sites."""
        work, ours = self.room.data / "sites" / "work", set(self.mails.values())
        found = [f"worktree {each.name}" for each in work.glob("edit-*") if each.name.rsplit("-", 2)[0][5:] in ours]
        running = {process.pid: process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])}
        found += [
            f"process {pid}: {' '.join(words)[:200]}"
            for pid, words in running.items()
            if any(f"{work}/edit-{project}-" in word for word in words for project in ours)
        ]
        scan = self.aws.dynamodb.get_paginator("scan").paginate(TableName="postroom-leases", ConsistentRead=True)
        for page in scan:
            for row in page["Items"]:
                key, state = row["key"]["S"], row.get("state", {}).get("S")
                mine = key.removeprefix("email:") in self.mails or (
                    key.split(":")[1] in ours and key.startswith("edit:")
                )
                if mine and state not in ("done", "refused", "failed", "cancelled"):
                    found.append(f"lease {key}: {state}")
        return found

    def account(self, *, patience: float = 60) -> Account:
        """To be drawn when all mails have ended."""
        found = Account(unfinished=self.open())
        outbox = Counter(mail["subject"] for mail in self.room.json("mail", "outbox"))
        on_main = {project: self.on_main(project) for project in set(self.mails.values())}
        pages = {project: self.pages(project) for project in set(self.mails.values())}
        for message_id, project in self.mails.items():
            row, subject = self.aws.instruction(project, message_id), self.subjects[message_id]
            status = row.get("status", {}).get("S")
            outcome = json.dumps(row.get("outcome", {}))
            told, times = outbox[f"Re: {subject}"], on_main[project][message_id]
            if times > 1:
                found.doubled.append(message_id)
            if status == "done" and (times == 0 or f"Say {subject}." not in pages[project]):
                found.lost.append(message_id)
            if status == "failed":
                found.failed[message_id] = row.get("reason", {}).get("S", "")
            if told > 1:
                found.answered_twice.append(message_id)
            if status in ENDED and told == 0:
                if '"unknown"' in outcome:
                    found.unknown += 1
                else:
                    found.unanswered.append(message_id)
        found.lost += [message_id for message_id, status in found.unfinished.items() if status == "not in the book"]
        deadline = time.monotonic() + patience
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.5)
        found.left_behind = left
        return found


@contextmanager
def under_fire(settings: dict[str, str] | None = None) -> Iterator[World]:
    with opened(UNDER_FIRE | (settings or {})) as room:
        work = room.data / "sites" / "work"
        work.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=500m,mode=755", "tmpfs", str(work)]
        mounted = subprocess.run(mount, capture_output=True).returncode == 0  # a disk that can be full
        try:
            started = room.up()
            assert started.returncode == 0, started.stderr
            yield World(room)
        finally:
            if mounted:
                room("down")
                subprocess.run(["umount", "-l", str(work)], capture_output=True)
