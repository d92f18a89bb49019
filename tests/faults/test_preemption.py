"""A newer mail takes over; nothing said is lost, nothing is done twice. The real CLI, a model that takes its time."""

import json
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.fixtures.model import Model
from tests.fixtures.room import Aws, Room, add_site, call, until
from tests.fixtures.slow_agent import slow


@pytest.fixture
def site(post_room: Room, model: Model) -> Iterator[str]:
    project = f"busy-{uuid.uuid4().hex[:6]}"
    add_site(post_room, project, agent="claude")
    yield project
    model.script()


def post(room: Room, project: str, subject: str, *more: str) -> str:
    words = ("--from", "owner@example.com", "--to", f"{project}+owner@example.com", "--subject", subject)
    return str(room.json("mail", "send", *words, "--text", f"Please write {subject}.", *more)["message_id"])


def shown(room: Room, message_id: str) -> dict[str, Any]:
    answer = room("mail", "show", message_id, "--json")
    return json.loads(answer.stdout) if answer.returncode == 0 else {"status": "not seen yet"}


def status(room: Room, project: str, message_id: str) -> str:
    """The same, asked of the book itself: a process for each question would slow down what is watched."""
    return Aws(room.urls()["aws"]).statuses({message_id: project})[message_id]


def runs(room: Room, project: str) -> list[dict[str, Any]]:
    wanted = {"flow_runs": {"tags": {"all_": [f"site:{project}"]}}, "flows": {"name": {"any_": ["edit-site"]}}}
    found: list[dict[str, Any]] = call(f"{room.urls()['prefect']}/api/flow_runs/filter", wanted)
    return sorted(found, key=lambda run: run["created"])


def on_main(room: Room, project: str) -> Counter[str]:
    git = ["git", "-C", str(room.data / "sites" / f"{project}.git"), "log", "main"]
    wanted = "--format=%(trailers:key=Instruction,valueonly)"
    return Counter(subprocess.run([*git, wanted], capture_output=True, text=True, check=True).stdout.split())


def agents(project: str) -> list[psutil.Process]:
    """Processes that still work in a workspace of that site."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(f"{project}-" in word and "/work/" in word for word in process.info["cmdline"] or ())
    ]


@pytest.mark.timeout(1800)
def test_a_newer_mail_takes_over_and_carries_out_both(post_room: Room, model: Model, site: str) -> None:
    model.brain = slow(60)
    first = post(post_room, site, "note-one")
    until(lambda: status(post_room, site, first) == "editing" and model.requests, 120, "the first edit's agent")
    model.brain = slow(0.5)
    began = time.monotonic()
    second = post(post_room, site, "note-two")
    until(lambda: status(post_room, site, second) == "done", 150, "the second mail to be done")
    assert time.monotonic() - began < 120
    one, two = shown(post_room, first), shown(post_room, second)
    assert one["status"] == "done"
    assert one["commit"] == two["commit"]  # carried out together
    assert one["edit_run"] == two["edit_run"]
    assert on_main(post_room, site) == {first: 1, second: 1}

    old, new = runs(post_room, site)
    until(lambda: runs(post_room, site)[0]["state_name"] == "Preempted", 60, "the older run to be shown as preempted")
    old = runs(post_room, site)[0]
    assert old["state_type"] == "CANCELLED"
    assert second in old["state"]["message"]
    assert "note-two" in old["state"]["message"]
    assert {f"mail:{first}", f"mail:{second}"} <= set(new["tags"])
    assert answers(post_room, "note-one") == 1
    assert answers(post_room, "note-two") == 1
    assert not agents(site)


def answers(room: Room, subject: str) -> int:
    return sum(mail["subject"] == f"Re: {subject}" for mail in room.json("mail", "outbox"))


@pytest.mark.timeout(1800)
def test_cancelling_by_hand_is_no_preemption_the_sender_is_told_and_it_is_not_done_later(
    post_room: Room, model: Model, site: str
) -> None:
    model.brain = slow(90)
    first = post(post_room, site, "note-cancelled")
    until(lambda: status(post_room, site, first) == "editing" and model.requests, 120, "the agent")
    run = runs(post_room, site)[0]
    state = {"state": {"type": "CANCELLING"}, "force": False}
    call(f"{post_room.urls()['prefect']}/api/flow_runs/{run['id']}/set_state", state)
    until(lambda: status(post_room, site, first) == "cancelled", 60, "the mail to be cancelled")
    assert shown(post_room, first)["reason"] == "cancelled by operator"
    assert answers(post_room, "note-cancelled") == 1
    model.brain = slow(0.2)
    second = post(post_room, site, "note-after")
    until(lambda: status(post_room, site, second) == "done", 120, "the next mail")
    assert on_main(post_room, site) == {second: 1}
    assert not agents(site)


MAILS, WITHIN, EDIT_SECONDS = 12, 20.0, 10.0


@pytest.mark.timeout(1800)
def test_twelve_mails_in_twenty_seconds_are_all_carried_out_in_order_and_once(
    post_room: Room, model: Model, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    aws = Aws(post_room.urls()["aws"])
    model.brain = slow(EDIT_SECONDS)
    sent: dict[str, float] = {}
    began = time.monotonic()
    for number in range(MAILS):
        time.sleep(max(0.0, began + number * WITHIN / (MAILS - 1) - time.monotonic()))
        message_id = f"{site}-{number:02d}"
        aws.post(message_id, site, f"note-{site}-{number:02d}")
        sent[message_id] = time.monotonic() - began
    assert time.monotonic() - began < WITHIN + 5
    ended: dict[str, float] = {}

    def all_ended() -> bool:
        for message_id in sent:
            status = aws.instruction(site, message_id).get("status", {}).get("S")
            if message_id not in ended and status in ("done", "failed", "cancelled"):
                ended[message_id] = time.monotonic() - began
        return len(ended) == MAILS

    until(all_ended, 240, "all twelve to end")
    outcomes = {message_id: shown(post_room, message_id) for message_id in sent}
    assert {told["status"] for told in outcomes.values()} == {"done"}
    assert in_order(post_room, site) == list(sent)
    pages = {each["Key"] for each in aws.s3.list_objects_v2(Bucket=f"edit.{site}.example.com")["Contents"]}
    assert {f"note-{message_id}/index.html" for message_id in sent} <= pages
    edits = runs(post_room, site)
    assert len(edits) <= MAILS
    answered = Counter(mail["subject"] for mail in post_room.json("mail", "outbox") if site in mail["subject"])
    assert answered == {f"Re: note-{message_id}": 1 for message_id in sent}
    with capsys.disabled():
        print(f"\n{MAILS} mails in {WITHIN:g} s, edits of {EDIT_SECONDS:g} s: {len(edits)} edits, of them "
              f"{sum(run['state_name'] == 'Preempted' for run in edits)} preempted")  # fmt: skip
        print(f"{'mail':18}{'sent':>8}{'done':>8}  carried out by")
        for message_id, told in outcomes.items():
            by = next(n for n, run in enumerate(edits, 1) if run["id"] == told["edit_run"])
            print(f"{message_id:18}{sent[message_id]:7.1f}s{ended[message_id]:7.1f}s  edit {by}")


def in_order(room: Room, project: str) -> list[str]:
    """The instructions on main, in the order in which they came there."""
    git = ["git", "-C", str(room.data / "sites" / f"{project}.git"), "log", "--reverse", "main"]
    wanted = "--format=%(trailers:key=Instruction,valueonly)"
    return subprocess.run([*git, wanted], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.timeout(1800)
def test_an_edit_that_slept_past_its_lease_and_was_overtaken_changes_nothing_when_it_wakes_up(
    post_room: Room, model: Model, site: str
) -> None:
    aws = Aws(post_room.urls()["aws"])
    model.brain = slow(8)
    aws.post(f"{site}-first", site, "note-asleep")
    until(lambda: len(running(post_room, site)) == 1 and agents(site), 120, "the first edit's agent")
    (sleeper,) = running(post_room, site)
    sleeper.suspend()
    try:
        model.brain = slow(3)
        aws.post(f"{site}-second", site, "note-awake")
        until(lambda: aws.row(f"edit:{site}:2").get("state", {}).get("S") == "working", 60, "the newer edit")
        until(lambda: status(post_room, site, f"{site}-second") == "editing", 60, "it to begin")
    finally:
        sleeper.resume()
    until(lambda: not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE, 60, "the sleeper to end")
    assert aws.row(f"edit:{site}:1")["reason"]["S"] == "overtaken by a newer edit"
    until(lambda: status(post_room, site, f"{site}-second") == "done", 150, "the second mail")
    one, two = shown(post_room, f"{site}-first"), shown(post_room, f"{site}-second")
    assert one["commit"] == two["commit"]  # the newer edit has carried out both
    assert on_main(post_room, site) == {f"{site}-first": 1, f"{site}-second": 1}
    assert answers(post_room, "note-asleep") == answers(post_room, "note-awake") == 1
    assert not agents(site)


def running(room: Room, project: str) -> list[psutil.Process]:
    """The processes of the site's edits: those above its agents."""
    warm = psutil.Process(room.pids()["warm"])
    ours = {process.pid for agent in agents(project) for process in agent.parents()}
    return [child for child in warm.children() if child.pid in ours]
