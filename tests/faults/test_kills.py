"""kill -9 of every part, at random moments, while 200 mails flow: all end done, each effect is there exactly once."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.world import World
from tests.fixtures.room import Aws, Room, until

SEEDS = [int(seed) for seed in os.environ.get("POSTROOM_TEST_SEEDS", "1 2 3").split()]
MAILS = {SEEDS[0]: 200}  # and a few for the others
FEW = 40
KILLED = ("sensor", "light", "heavy", "warm", "prefect", "aws")


@pytest.fixture(scope="module")
def room(_under_fire: World) -> Room:
    """A post room with one site that is edited, and one that is paused: its mails only enter the book."""
    room = _under_fire.room
    _under_fire.add_sites(["quiet", "busy"])
    pause(room, "quiet")
    return room


def pause(room: Room, project: str) -> None:
    """As an operator does it in the Prefect UI: the block's field."""
    code = (
        "from blocks.site import Site\n"
        f"site = Site.load({project!r})\n"
        "site.paused = True\n"
        f"site.save({project!r}, overwrite=True)\n"
    )
    env = {**room.env, "PREFECT_API_URL": f"{room.urls()['prefect']}/api"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_every_mail_ends_done_and_nothing_is_done_twice(room: Room, seed: int) -> None:
    chance = random.Random(seed)
    aws = Aws(room.urls()["aws"])
    before = {project: aws.seq(project) for project in ("quiet", "busy")}
    mails = {f"s{seed}-{n:03d}": "busy" if n % 20 == 7 else "quiet" for n in range(MAILS.get(seed, FEW))}

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(aws.post, message_id, project, message_id) for message_id, project in mails.items()]
        killed = kill_at_random(room, chance, rounds=2)
        for sent in sending:
            sent.result()
    assert set(killed) == set(KILLED)

    def waiting() -> Counter[str]:
        return Counter(state for state in aws.states(mails).values() if state != "done")

    until(lambda: not waiting(), 240, lambda: f"all mails to be done; still: {waiting()}")
    ours = [message_id for message_id, project in mails.items() if project == "busy"]
    edits = dict.fromkeys(ours, "busy")
    until(lambda: set(aws.statuses(edits).values()) == {"done"}, 240, lambda: f"the edits: {aws.statuses(edits)}")

    # each mail has raised its site's count exactly once
    counts = Counter(mails.values())
    assert {project: aws.seq(project) - before[project] for project in counts} == dict(counts)
    # each instruction is on main exactly once
    git = [
        "git",
        "-C",
        str(room.data / "sites" / "busy.git"),
        "log",
        "--format=%(trailers:key=Instruction,valueonly)",
        "main",
    ]
    on_main = Counter(subprocess.run(git, capture_output=True, text=True, check=True).stdout.split())
    assert {message_id: on_main[message_id] for message_id in ours} == dict.fromkeys(ours, 1)
    # nobody got two answers
    answers = Counter(mail["subject"] for mail in room.json("mail", "outbox") if mail["subject"].startswith("Re: s"))
    assert {answers[f"Re: {message_id}"] for message_id in ours if replied(aws, message_id) != "unknown"} <= {1}
    assert not {subject: count for subject, count in answers.items() if count > 1}
    # no message is left, in no queue
    until(lambda: empty(room), 60, "the queues to be empty")
    assert room.status()["queues"]["postroom-mail"]["dead"] == 0


def replied(aws: Aws, message_id: str) -> str:
    row = aws.instruction("busy", message_id)
    told = row.get("outcome", {}).get("M", {}).get("reply", {}).get("S", "")
    return "unknown" if told == "covered" else str(told)  # a thread's answer covers all of it


def empty(room: Room) -> bool:
    queue = room.status()["queues"]["postroom-mail"]
    return not queue["waiting"] and not queue["in_flight"]


def kill_at_random(room: Room, chance: random.Random, *, rounds: int) -> list[str]:
    """Every part is killed `rounds` times, in random order, with random pauses; `up` brings it back."""
    order = [part for _ in range(rounds) for part in chance.sample(KILLED, len(KILLED))]
    for part in order:
        time.sleep(chance.uniform(0.2, 2.5))
        pid = room.pids().get(part)
        if pid is None:  # it is just being brought back
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return order
