"""Many people of many customers, an SES that answers wrongly, kill -9 of worker and sensor: each is told once.

A sample; POSTROOM_TEST_RECIPIENTS=2000 POSTROOM_TEST_CUSTOMERS=30 for all of it.
"""

import json
import os
import signal
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.mischief import order_weather
from tests.faults.world import World
from tests.fixtures.room import Room, until

PEOPLE = int(os.environ.get("POSTROOM_TEST_RECIPIENTS", "600"))
CUSTOMERS = int(os.environ.get("POSTROOM_TEST_CUSTOMERS", "10"))
ID = "under-fire"
KILLS = ((0.1, "light"), (0.3, "sensor"), (0.5, "light"))  # when so much of it is sent


def codes() -> list[str]:
    return [f"tree{n:02}" for n in range(CUSTOMERS)]


def address(n: int) -> str:
    return f"p{n}@{codes()[n % CUSTOMERS]}.example.com"


@pytest.fixture
def subscribed(world: World, tmp_path: Path) -> World:
    load(world.room, tmp_path)
    return world


def load(room: Room, folder: Path) -> None:
    """The customers, and the people among them."""
    customers = {
        code: {
            "name": code.capitalize(),
            "region": "eu-west-1",
            "ses_role_arn": f"arn:aws:iam::2000000000{n:02}:role/postroom-ses",
            "sender": f"changes@{code}.example.com",
            "timezone": "Europe/Berlin",
            "contact_list": "changes",
        }
        for n, code in enumerate(codes())
    }
    people: dict[str, list[Any]] = {code: [] for code in customers}
    for n in range(PEOPLE):
        people[codes()[n % CUSTOMERS]].append({"address": address(n), "topics": {"aws-approval": "in"}})
    (folder / "customers.json").write_text(json.dumps({"customers": customers}))
    (folder / "contacts.json").write_text(json.dumps({"contacts": people}))
    done = room("customers", "load", str(folder / "customers.json"))
    assert done.returncode == 0, done.stderr


def submit(room: Room, folder: Path) -> None:
    schedule = {"implementationStart": "2027-03-20T10:00", "implementationEnd": "2027-03-20T17:00", "timezone": "UTC"}
    facts = {"title": "Move", "customerCodes": codes(), "schedule": schedule}
    document = {"changeId": ID, "changeMetadata": facts, "emailNotification": {"subject": "Move"}}
    (folder / "change.json").write_text(json.dumps(document))
    room.json("change", "submit", str(folder / "change.json"))


def states(world: World) -> dict[str, str]:
    """How the delivery to each person stands in the book."""
    found = {}
    for page in world.aws.dynamodb.get_paginator("scan").paginate(TableName="postroom-deliveries", ConsistentRead=True):
        for row in page["Items"]:
            if row["batch"]["S"].startswith(f"change:{ID}:") and "state" in row:
                found[row["recipient"]["S"]] = row["state"]["S"]
    return found


def outbox(world: World) -> Counter[str]:
    with urllib.request.urlopen(f"{world.urls['aws']}/_postroom/outbox", timeout=60) as answer:
        found = Counter(to for mail in json.load(answer) for to in mail["to"])
    return Counter({to: count for to, count in found.items() if to in set(map(address, range(PEOPLE)))})


@pytest.mark.timeout(1800)
def test_whatever_is_killed_each_subscriber_is_told_once_and_the_counts_add_up(
    subscribed: World, tmp_path: Path
) -> None:
    world, room = subscribed, subscribed.room
    order_weather(world, kind="forgetful", service="ses", share=0.05, seconds=300)  # accepted, and answered with 500
    submit(room, tmp_path)
    for share, part in KILLS:
        goal = int(share * PEOPLE)
        until(lambda goal=goal: Counter(states(world).values())["sent"] >= goal, 120, f"{goal} mails to be sent")
        os.kill(room.pids()[part], signal.SIGKILL)

    def ended() -> bool:
        return all(
            world.aws.row(f"change:{ID}:1:submitted:{code}").get("state", {}).get("S") == "done" for code in codes()
        )

    until(ended, 240, "every customer's notice to be done")
    order_weather(world, kind="clear")
    everybody = {address(n) for n in range(PEOPLE)}
    mails, found = outbox(world), states(world)
    assert [person for person, count in mails.items() if count > 1] == [], "nobody is told twice"
    assert set(found) == everybody
    assert set(found.values()) <= {"sent", "unknown"}
    assert {person for person, state in found.items() if state == "sent"} <= set(mails)
    assert {person for person in everybody if person not in mails} <= {p for p, s in found.items() if s == "unknown"}
    until(lambda: {each["status"] for each in shown(room).values()} == {"done"}, 60, "the archive to say so")
    counts = shown(room).values()
    assert sum(each["recipients"] for each in counts) == PEOPLE
    assert all(each["recipients"] == each["sent"] + each["failed"] + each["unknown"] for each in counts)
    # what is unknown and went out is settled by SES's own events
    until(lambda: {p for p, s in states(world).items() if s == "sent"} == set(mails), 60, "the unknown to be settled")


def shown(room: Room) -> dict[str, Any]:
    found: dict[str, Any] = room.json("change", "show", ID)["customers"]
    return found
