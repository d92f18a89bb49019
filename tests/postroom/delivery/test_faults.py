"""Nobody twice and nobody lost, through a bad network and kill -9.

POSTROOM_TEST_RECIPIENTS and POSTROOM_TEST_CUSTOMERS make it as large as wished.
"""

import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from postroom.aws.clients import client
from postroom.delivery.notice import Notice
from postroom.delivery.ses_events import event_of, settle, understand
from postroom.ledger.book import Book
from postroom.ledger.deliveries import Delivery
from tests.postroom.delivery.conftest import Account, change
from tests.postroom.delivery.faulty import Faulty

PEOPLE = int(os.environ.get("POSTROOM_TEST_RECIPIENTS", "400"))
CUSTOMERS = int(os.environ.get("POSTROOM_TEST_CUSTOMERS", "6"))
SETTINGS = {"POSTROOM_DELIVERY_CALL_SECONDS": "1", "POSTROOM_DELIVERY_AT_ONCE": "32"}
ROOT = Path(__file__).parents[3]


def start(told: dict[str, Any], accounts: list[Account], through: Faulty) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.postroom.delivery.sender"],
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL_SESV2": through.url, **SETTINGS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    json.dump({"change": told, "customers": [dataclasses.asdict(each.customer) for each in accounts]}, process.stdin)
    process.stdin.close()
    process.stdin = None
    return process


def mails(accounts: list[Account]) -> Counter[str]:
    return Counter(address for each in accounts for address in each.told())


def rows(book: Book, told: dict[str, Any], accounts: list[Account]) -> dict[str, Delivery]:
    notices = [Notice.of(told, each.customer, "aws-approval", "approval-request") for each in accounts]
    return {row.recipient: row for notice in notices for row in book.deliveries.of_batch(notice.batch)}


def test_with_faults_and_kills_nobody_is_told_twice_and_nobody_is_lost(
    book: Book, new_account: Callable[..., Account], local_aws: str
) -> None:
    queue = client("sqs").create_queue(QueueName="postroom-ses-events")["QueueUrl"]  # where this local SES tells
    accounts = [new_account(f"customer-{n}") for n in range(CUSTOMERS)]
    people = [f"p{n}@c{n % CUSTOMERS}.example.com" for n in range(PEOPLE)]
    for n, account in enumerate(accounts):
        account.subscribe(people[n::CUSTOMERS])
    told = change()
    kills = 0
    with Faulty(local_aws, 0.05) as proxy:
        for goal in (PEOPLE // 4, PEOPLE // 2):  # how far it comes before it is killed
            process = start(told, accounts, proxy)
            deadline = time.monotonic() + 60
            while sum(mails(accounts).values()) < goal and process.poll() is None and time.monotonic() < deadline:
                time.sleep(random.uniform(0.02, 0.1))
            kills += process.poll() is None
            process.kill()
            process.wait()
        for _ in range(5):  # the sensor's part: what may be tried again is tried again
            process = start(told, accounts, proxy)
            try:
                said, _ = process.communicate(timeout=120 + PEOPLE / 10)
            finally:
                process.kill()
            if process.returncode == 0:
                break
    assert process.returncode == 0, said
    assert kills == 2
    assert sum(proxy.done.values()) > 0
    reports = json.loads(said)
    sent, found = mails(accounts), rows(book, told, accounts)
    assert [address for address, count in sent.items() if count > 1] == []
    assert set(found) == set(people)
    states = Counter(row.state for row in found.values())
    assert set(states) <= {"sent", "unknown"}
    assert sum(each["recipients"] for each in reports) == PEOPLE
    assert Counter({k: sum(r[k] for r in reports) for k in ("sent", "unknown")}) == states
    assert {each for each, row in found.items() if row.state == "sent"} <= set(sent)
    assert {each for each in people if each not in sent} <= {k for k, row in found.items() if row.state == "unknown"}
    assert states["unknown"] < PEOPLE / 2

    unknown = {row.delivery_id for row in found.values() if row.state == "unknown"}
    deadline = time.monotonic() + 60 + PEOPLE / 10
    while time.monotonic() < deadline:  # SES's own events settle what is unknown
        got = client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        if not got:
            break
        for message in got:
            told_of = understand(event_of(message["Body"]))
            if told_of is not None and told_of.tag in unknown:
                settle(book, message["Body"])
        entries = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(got)]
        client("sqs").delete_message_batch(QueueUrl=queue, Entries=entries)
    settled = rows(book, told, accounts)
    assert {each for each, row in settled.items() if row.state == "sent"} == set(sent)
    assert {each for each, row in settled.items() if row.state == "unknown"} == set(people) - set(sent)


def test_the_same_network_makes_plain_retries_send_twice(account: Account, local_aws: str) -> None:
    """So that we know that the faults above do harm."""
    people = [f"p{n}@example.com" for n in range(12)]
    account.subscribe(people)
    with Faulty(local_aws, 0.8, late_seconds=0.6, seed=7) as proxy:
        ses = boto3.session.Session().client(
            "sesv2",
            endpoint_url=proxy.url,
            region_name="eu-west-1",
            aws_access_key_id=account.customer.account,
            aws_secret_access_key="local",
            config=Config(read_timeout=0.3, retries={"mode": "standard", "total_max_attempts": 2}),
        )
        for address in people:
            try:
                ses.send_email(
                    FromEmailAddress="desk@example.com",
                    Destination={"ToAddresses": [address]},
                    Content={"Simple": {"Subject": {"Data": "x"}, "Body": {"Text": {"Data": "x"}}}},
                )
            except Exception:
                continue
    assert max(mails([account]).values()) > 1
