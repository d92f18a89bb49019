"""`postroom deliveries`, run as a command."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from blocks.customer import save_customer
from postroom.aws.clients import client
from postroom.delivery.notice import Notice
from postroom.delivery.report import enter
from postroom.delivery.send import deliver
from postroom.ledger.book import Book
from postroom.settings import settings
from tests.postroom.delivery.conftest import change, open_account

TOPIC, KIND = "aws-approval", "approval-request"


def postroom(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from cli.main import run; run()", "deliveries", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, text=True, env=os.environ)


def archived(told: dict[str, Any]) -> dict[str, Any]:
    """The change, complete, in the archive."""
    told = told | {
        "createdAt": "2026-11-18T10:00:00Z",
        "modifiedAt": "2026-11-18T10:00:00Z",
        "createdBy": "ann@example.com",
        "modifiedBy": "ann@example.com",
        "emailNotification": {"subject": "Database"},
        "modifications": [],
    }
    facts = {"customerNames": ["Acme Ltd"], "testPlan": "t", "expectedCustomerImpact": "none", "rollbackPlan": "back"}
    told["changeMetadata"] = told["changeMetadata"] | facts
    bucket = f"{settings().prefix}-changes"
    client("s3").put_object(Bucket=bucket, Key=f"archive/{told['changeId']}.json", Body=json.dumps(told).encode())
    return told


async def test_a_report_and_another_try_for_the_failed(provisioned: Any, local_aws: str, prefect_server: str) -> None:
    account = open_account(local_aws)
    account.subscribe(["a@example.com", "b@example.com"])
    ses = account.client("sesv2")
    ses.put_suppressed_destination(EmailAddress="b@example.com", Reason="BOUNCE")
    told = archived(change())
    await deliver(Book(settings()), change=told, customer=account.customer, topic=TOPIC, kind=KIND)
    await save_customer(account.customer)

    shown = await asyncio.to_thread(postroom, "show", told["changeId"], "--json")
    assert (shown.returncode, shown.stderr) == (0, "")
    [report] = json.loads(shown.stdout)
    assert {k: report[k] for k in ("customer", "recipients", "sent", "failed", "unknown", "pending", "reasons")} == {
        "customer": "acme",
        "recipients": 2,
        "sent": 1,
        "failed": 1,
        "unknown": 0,
        "pending": 0,
        "reasons": {"suppressed": 1},
    }
    table = await asyncio.to_thread(postroom, "show", told["changeId"], "--customer", "acme")
    assert "suppressed: an earlier bounce" in table.stdout

    rehearsed = await asyncio.to_thread(postroom, "resend", told["changeId"], "--failed", "--dry-run")
    assert rehearsed.stdout == "acme, submitted: 1 would be tried again\n"
    still = await asyncio.to_thread(postroom, "resend", told["changeId"], "--failed", "--json")
    assert (still.returncode, json.loads(still.stdout)[0]["failed"]) == (69, ["b@example.com"])
    assert account.told() == ["a@example.com"], "who is suppressed is not told by a second try"
    ses.delete_suppressed_destination(EmailAddress="b@example.com")
    again = await asyncio.to_thread(postroom, "resend", told["changeId"], "--failed", "--json")
    assert again.returncode == 0, again.stderr
    counts = {"failed": [], "sent": 1, "unknown": 0, "pending": 0}
    assert json.loads(again.stdout) == [{"customer": "acme", "notice": "submitted", **counts}]
    assert account.told() == ["a@example.com", "b@example.com"]


async def test_a_person_settles_what_is_unknown(provisioned: Any, local_aws: str, prefect_server: str) -> None:
    account, book = open_account(local_aws), Book(settings())
    people = ["a@example.com", "b@example.com", "c@example.com"]
    told = archived(change())
    notice = Notice.of(told, account.customer, TOPIC, KIND)
    enter(book, notice)
    for person in people:
        book.deliveries.plan(notice.batch, person, detail=notice.detail)
        book.deliveries.claim(notice.batch, person)
        book.deliveries.unknown(notice.batch, person, "no answer from SES")
    account.subscribe(people)
    await save_customer(account.customer)

    def states() -> list[str]:
        return [row.state for row in book.deliveries.of_batch(notice.batch)]

    unsaid = await asyncio.to_thread(postroom, "settle", told["changeId"], "a@example.com")
    assert (unsaid.returncode, "--not-sent" in unsaid.stderr) == (2, True)
    rehearsed = await asyncio.to_thread(postroom, "settle", told["changeId"], "A@example.com", "--sent", "--dry-run")
    assert "would be sent" in rehearsed.stdout
    assert states() == ["unknown"] * 3
    sent = await asyncio.to_thread(postroom, "settle", told["changeId"], "A@example.com", "--sent", "--json")
    found = {"customer": "acme", "notice": "1 submitted", "recipient": "a@example.com", "state": "sent"}
    assert json.loads(sent.stdout) == [found]
    again = await asyncio.to_thread(postroom, "settle", told["changeId"], "a@example.com", "--not-sent")
    assert (again.returncode, "no delivery is unknown to a@example.com" in again.stderr) == (65, True)
    lost = await asyncio.to_thread(postroom, "settle", told["changeId"], "b@example.com", "--not-sent")
    assert (lost.returncode, account.told()) == (0, []), "nothing is sent by that"
    assert states() == ["sent", "failed", "unknown"]
    resent = await asyncio.to_thread(postroom, "resend", told["changeId"], "--failed")
    assert resent.returncode == 0, resent.stderr
    assert account.told() == ["b@example.com"]


def test_what_is_not_there_and_what_is_not_said_are_named(provisioned: Any) -> None:
    missing = postroom("show", "nothing")
    assert (missing.returncode, missing.stdout) == (65, "")
    assert "nobody was told of change nothing" in missing.stderr
    unsaid = postroom("resend", "nothing")
    assert unsaid.returncode == 2
    assert "--failed" in unsaid.stderr
