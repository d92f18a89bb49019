"""A mail changes a website: from the raw mail in S3 to the page and the answer, by the literal driver."""

import json
import re
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import boto3
import pytest
from PIL import Image

from tests.fixtures.room import Room, call, until

OWNER, SITE = "owner@example.com", "garden+owner@example.com"


def send(room: Room, subject: str, text: str, *more: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    words = ("--from", OWNER, "--to", SITE, "--subject", subject, "--text", text, "--wait", *more)
    found: dict[str, Any] = room.json("mail", "send", *words, codes=codes)
    return found


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def answers(room: Room, subject: str) -> list[dict[str, Any]]:
    return [mail for mail in room.json("mail", "outbox") if mail["subject"] == f"Re: {subject}"]


def edits(room: Room) -> int:
    return int(call(f"{room.status()['prefect']}/api/flow_runs/count", {"flows": {"name": {"any_": ["edit-site"]}}}))


@pytest.mark.timeout(1800)
def test_a_mail_with_a_photo_becomes_a_page_and_is_answered_in_its_thread(post_room: Room, tmp_path: Path) -> None:
    photo = tmp_path / "Roses & more.jpg"
    Image.effect_mandelbrot((900, 700), (-2, -1.5, 1, 1.5), 60).convert("RGB").save(photo, exif=Image.Exif())
    subject = f"Roses {uuid.uuid4().hex[:6]}"
    outcome = send(post_room, subject, "The <b>roses</b> are in bloom: {1 + 1}.", "--attach", str(photo))

    assert outcome["status"] == "done"
    assert outcome["reply"] == "sent"
    assert [run["state"] for run in outcome["runs"]] == ["Completed", "Completed"]
    assert {"master.avif", "master.jpg"} == set(outcome["attachments"][0]["files"])
    shown = page(outcome["edit_url"])
    assert subject in shown
    assert "{1 + 1}" in shown.replace("&#123;", "{").replace("&#125;", "}")  # said, not computed
    assert "&lt;b&gt;roses&lt;/b&gt;" in shown
    assert "<b>roses</b>" not in re.sub(r'="[^"]*"', "", shown)  # inside an attribute it is no markup
    assert ".avif" in shown
    assert "X-Amz" not in shown
    (answer,) = answers(post_room, subject)
    assert answer["to"] == [OWNER]
    assert outcome["edit_url"] in answer["text"]
    assert "as it was written" in answer["text"]  # honest about the driver
    assert answer["headers"]["In-Reply-To"]


@pytest.mark.timeout(1800)
def test_the_same_event_three_times_and_a_replay_leave_one_edit_and_one_answer(post_room: Room) -> None:
    subject = f"Once {uuid.uuid4().hex[:6]}"
    outcome = send(post_room, subject, "Say this once.")
    before = edits(post_room)
    for _ in range(3):
        replayed = post_room.json("mail", "replay", outcome["message_id"])
        assert replayed["commit"] == outcome["commit"]
        send_event(post_room, outcome["message_id"])
    until(lambda: queue_is_empty(post_room), 60, "the queue to be empty")
    assert edits(post_room) == before
    assert len(answers(post_room, subject)) == 1


def aws(room: Room, service: str) -> Any:
    keys = {"aws_access_key_id": "000000000000", "aws_secret_access_key": "x", "region_name": "eu-west-1"}
    return boto3.client(service, endpoint_url=room.status()["aws"], **keys)  # type: ignore[call-overload]


def send_event(room: Room, message_id: str) -> None:
    sqs = aws(room, "sqs")
    record = {
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "postroom-mail"}, "object": {"key": f"incoming/{message_id}"}},
    }
    url = sqs.get_queue_url(QueueName="postroom-mail")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"Records": [record]}))


def queue_is_empty(room: Room) -> bool:
    queue = room.status()["queues"]["postroom-mail"]
    return not queue["waiting"] and not queue["in_flight"]


@pytest.mark.timeout(1800)
def test_undo_takes_back_the_last_edit_and_publish_brings_the_site_to_production(post_room: Room) -> None:
    subject = f"Mistake {uuid.uuid4().hex[:6]}"
    done = send(post_room, subject, "This will be taken back.")
    assert send(post_room, "Re: " + subject, "undo")["status"] == "done"
    front = page(post_room.json("site", "show", "garden")["edit_url"])
    assert subject not in front
    published = send(post_room, "Go live", "Publish, please.")
    assert published["status"] == "done"
    production = page(post_room.json("site", "show", "garden")["production_url"])
    assert production == front
    with pytest.raises(urllib.request.HTTPError):
        page(done["edit_url"])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("words", "reason", "answered"),
    [
        (("--from", "stranger@example.org", "--to", SITE), "not on the list", True),
        (("--from", OWNER, "--to", SITE, "--verdict", "dmarc=fail"), "could not be confirmed", False),
        (("--from", OWNER, "--to", SITE, "--verdict", "virus=fail"), "virus", False),
        (("--from", OWNER, "--to", "nowhere+owner@example.com"), "there is no site", False),
        (("--from", OWNER, "--to", "office@example.com"), "no recipient of this mail is a site", False),
    ],
    ids=["not listed", "forged", "virus", "unknown site", "no site"],
)
def test_mail_that_may_not_speak_is_put_aside_with_the_reason(
    post_room: Room, words: tuple[str, ...], reason: str, answered: bool
) -> None:
    subject = f"No {uuid.uuid4().hex[:8]}"
    before = edits(post_room)
    more = ("--subject", subject, "--text", "Change it all.", "--wait")
    outcome = post_room.json("mail", "send", *words, *more, codes=(65,))
    assert outcome["status"] == "refused"
    assert reason in outcome["reason"]
    assert [run["state"] for run in outcome["runs"]] == ["Refused"]
    assert edits(post_room) == before
    assert len(answers(post_room, subject)) == int(answered)
    aside = f"{post_room.status()['aws']}/postroom-mail/quarantine/{outcome['message_id']}.reason.json"
    assert reason in json.loads(page(aside))["reason"]


@pytest.mark.timeout(1800)
def test_what_is_no_mail_is_kept_aside_and_among_the_dead_letters_with_the_reason(post_room: Room) -> None:
    name = f"odd-{uuid.uuid4().hex[:8]}"
    aws(post_room, "s3").put_object(Bucket="postroom-mail", Key=f"incoming/{name}", Body=b"\x00\x01 no mail at all")
    sqs = aws(post_room, "sqs")
    queue = sqs.get_queue_url(QueueName="postroom-mail-dlq")["QueueUrl"]
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        asked = sqs.receive_message(
            QueueUrl=queue, WaitTimeSeconds=1, VisibilityTimeout=0, MessageAttributeNames=["All"]
        )
        found.extend(letter for letter in asked.get("Messages", []) if name in letter["Body"])
        return bool(found)

    until(is_there, 60, "the dead letter")
    assert "this is not a mail" in found[0]["MessageAttributes"]["reason"]["StringValue"]
    aside = f"{post_room.status()['aws']}/postroom-mail/quarantine/{name}.reason.json"
    assert "this is not a mail" in json.loads(page(aside))["reason"]
    shown = post_room.json("mail", "show", name)
    assert shown["status"] == "failed"
