"""The sensor as production runs it: real processes, real signals, real outages."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.aws.queues import find_queue
from postroom.ledger import Book
from postroom.settings import load
from tests.workers.sensing import (
    QUICK,
    Line,
    asked_for,
    dead_letters,
    deployments,
    finish,
    left_in,
    mail_event,
    new_id,
    record,
    runs_of,
    send,
    sensor_processes,
    until,
)

MALFORMED = 1000


@pytest.fixture(autouse=True)
async def deployed(prefect_server: str) -> AsyncIterator[None]:
    async with deployments("email-to-site", "agent-task", "change-to-notification"):
        yield


@pytest.fixture
def book(provisioned: Names) -> Book:
    return Book(load(prefix=provisioned.prefix, **QUICK))


async def test_on_sigterm_what_is_held_is_visible_to_others_within_ten_seconds(
    provisioned: Names, book: Book, tmp_path: Path
) -> None:
    mails = [new_id() for _ in range(25)]
    with sensor_processes(tmp_path / "sensor", POSTROOM_VISIBILITY_SECONDS="600") as (sensor,):
        await until(sensor.ready, "a sensor", 60)
        for each in mails:
            send(provisioned.mail_queue, mail_event(each))
        await until(lambda: sensor.holds() == 25, "25 held")
        health = sensor.health()
        assert health is not None
        assert (health["code"], health["status"]) == (200, "ok")
        assert health["queues"][provisioned.mail_queue]["held"] == 25
        assert sensor.terminate() < 10
    assert left_in(provisioned.mail_queue) == (25, 0)


async def test_prefect_and_aws_may_go_away_and_come_back(
    provisioned: Names, book: Book, prefect_server: str, local_aws: str, tmp_path: Path
) -> None:
    prefect, aws = Line(prefect_server), Line(local_aws)
    await aws.mend()  # Prefect is not there yet when the sensor starts
    lines = {"PREFECT_API_URL": prefect.url("/api"), "AWS_ENDPOINT_URL": aws.url()}
    first, second = new_id(), new_id()
    try:
        with sensor_processes(tmp_path / "sensor", **lines) as (sensor,):
            await until(sensor.ready, "a sensor", 60)
            send(provisioned.mail_queue, mail_event(first))
            await until(lambda: sensor.holds() == 1, "held without Prefect")
            await until(lambda: (sensor.health() or {})["prefect_reachable"] is False, "it says so")
            await prefect.mend()
            row = await asked_for(book, f"email:{first}", 40)
            await aws.cut()
            await until(lambda: (sensor.health() or {})["aws_reachable"] is False, "it says so")
            finish(book, row.key)
            send(provisioned.mail_queue, mail_event(second))
            await aws.mend()
            row = await asked_for(book, f"email:{second}", 40)
            finish(book, row.key)
            await until(lambda: left_in(provisioned.mail_queue) == (0, 0), "nothing left", 40)
            assert sensor.terminate() < 10
    finally:
        await prefect.cut()
        await aws.cut()
    assert [len(await runs_of(f"email:{each}")) for each in (first, second)] == [1, 1]


async def test_a_sensor_without_prefect_and_aws_still_ends_on_sigterm(
    provisioned: Names, local_aws: str, tmp_path: Path
) -> None:
    aws = Line(local_aws)
    await aws.mend()
    away = {"PREFECT_API_URL": Line(local_aws).url("/api"), "AWS_ENDPOINT_URL": aws.url()}
    with sensor_processes(tmp_path / "sensor", **away) as (sensor,):
        await until(sensor.ready, "a sensor", 60)
        send(provisioned.mail_queue, mail_event(new_id()))
        await until(lambda: sensor.holds() == 1, "held")
        await aws.cut()
        assert await asyncio.to_thread(sensor.terminate) < 10


def malformed(dice: random.Random) -> str:
    """A body in which something is wrong, for the mail queue."""
    good = json.loads(mail_event(new_id()))
    text = json.dumps(good)
    cut = dice.randrange(1, len(text) - 1)
    places = [
        ("eventName",),
        ("s3",),
        ("s3", "bucket"),
        ("s3", "object"),
        ("s3", "bucket", "name"),
        ("s3", "object", "key"),
    ]
    *way, last = dice.choice(places)
    spoiled = json.loads(text)
    inner = spoiled["Records"][0]
    for step in way:
        inner = inner[step]
    inner[last] = dice.choice([None, 7, "", [], {}, True, 1e300])
    noise = "".join(chr(dice.choice([*range(32, 127), 0xE4, 0x2603, 0x1F600])) for _ in range(dice.randrange(1, 400)))
    return dice.choice(
        [
            text[:cut],
            text[:cut] + noise + text[cut:].replace('"', "'"),
            noise,
            json.dumps(spoiled),
            json.dumps({"Records": dice.choice([[], {}, "x", None, [None], [[good]]])}),
            json.dumps({"Records": [record("incoming/" + dice.choice(["%ff", "a/b", "x%00y", "a" * 1000]))]}),
            json.dumps({"Message": noise, "TopicArn": "arn"}),
            "[" * dice.randrange(1, 5000),
            json.dumps([good]),
            json.dumps(dice.choice([None, 1, "x", True])),
            '{"a": ' + "9" * 5000 + "}",
            json.dumps({"x": "y" * dice.randrange(1000, 60_000)}),
        ]
    )


async def test_a_thousand_malformed_bodies_are_dead_letters_and_the_sensor_lives(
    provisioned: Names, book: Book, tmp_path: Path
) -> None:
    dice, queue = random.Random(20260101), provisioned.mail_queue
    bodies = [malformed(dice) for _ in range(MALFORMED)]

    def send_all(some: list[str]) -> None:
        for start in range(0, len(some), 5):
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(some[start : start + 5])]
            assert not client("sqs").send_message_batch(QueueUrl=find_queue(queue), Entries=entries).get("Failed")

    with sensor_processes(tmp_path / "sensor", POSTROOM_VISIBILITY_SECONDS="60") as (sensor,):
        await until(sensor.ready, "a sensor", 60)
        memory = psutil.Process(sensor.process.pid).memory_info
        await asyncio.to_thread(send_all, bodies[: MALFORMED // 2])
        await until(lambda: left_in(queue) == (0, 0), "the first half buried", 200)
        half = memory().rss
        await asyncio.to_thread(send_all, bodies[MALFORMED // 2 :])
        await until(lambda: left_in(queue) == (0, 0), "the second half buried", 200)
        assert memory().rss - half < 20 * 2**20
        mail = new_id()
        send(queue, mail_event(mail))
        finish(book, (await asked_for(book, f"email:{mail}")).key)
        await until(lambda: left_in(queue) == (0, 0), "a good one done")
    letters = await asyncio.to_thread(dead_letters, queue, MALFORMED, 100)
    buried, sent = Counter(letter["body"] for letter in letters), Counter(bodies)
    assert ([each[:200] for each in sent - buried], [each[:200] for each in buried - sent]) == ([], [])
    assert all(letter["reason"] and letter["category"] in ("parse", "validation") for letter in letters)
