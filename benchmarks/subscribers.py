"""A customer with an SES account of its own on a local AWS, and as many subscribers as wished."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3

from postroom.aws.clients import client_config
from postroom.delivery.customer import Customer

TOPIC, KIND, LIST = "aws-approval", "approval-request", "people"


@contextmanager
def private_aws() -> Iterator[None]:
    """A local AWS with the house's tables, for the time of a measurement; boto3 talks to it meanwhile."""
    from deployments.local_aws import process
    from postroom.aws import provision
    from workers.parts import WITH_PARENT, free_port, start

    data, port, before = Path(tempfile.mkdtemp(prefix="postroom-bench-")), free_port(), dict(os.environ)
    running = None
    try:
        os.environ.update({**process.client_environment(port), WITH_PARENT: "1", "POSTROOM_PREFIX": "bench"})
        running = start(process.part(data, port))
        provision.apply()
        yield
    finally:
        if running is not None:
            running.stop()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(data, ignore_errors=True)


class Account:
    """One account: who is subscribed, how fast it may send, what it has sent."""

    def __init__(self, number: int, rate: float) -> None:
        from deployments.local_accounts import furnish

        self.id = f"{number:012}"
        self.customer = Customer(
            code=f"customer-{number}",
            name="Customer",
            region=os.environ["AWS_REGION"],
            ses_role_arn=f"arn:aws:iam::{self.id}:role/postroom-ses",
            sender="desk@example.com",
            timezone="Europe/Berlin",
            contact_list=LIST,
        )
        furnish([self.customer], {})
        self._url = os.environ["AWS_ENDPOINT_URL"]
        quota = json.dumps({"MaxSendRate": rate, "Max24HourSend": 1e6}).encode()
        request = urllib.request.Request(f"{self._url}/_postroom/accounts/{self.id}/quota", quota, method="PUT")
        urllib.request.urlopen(request).close()

    def ses(self, **config: Any) -> Any:
        keys = {"aws_access_key_id": self.id, "aws_secret_access_key": "local"}
        url = os.environ.get("AWS_ENDPOINT_URL_SESV2", self._url)
        return boto3.session.Session(**keys).client("sesv2", endpoint_url=url, config=client_config(**config))

    def subscribe(self, addresses: Sequence[str]) -> None:
        ses = self.ses()
        said = [{"TopicName": TOPIC, "SubscriptionStatus": "OPT_IN"}]

        def enter(address: str) -> None:
            ses.create_contact(ContactListName=LIST, EmailAddress=address, TopicPreferences=said)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(enter, addresses))

    def sent(self) -> list[float]:
        """When each of its mails was taken, in order."""
        with urllib.request.urlopen(f"{self._url}/_postroom/outbox?account={self.id}") as answer:
            return sorted(datetime.fromisoformat(mail["at"]).timestamp() for mail in json.load(answer))


def people(number: int) -> list[str]:
    return [f"p{n:06}@example.com" for n in range(number)]


def change() -> dict[str, Any]:
    """A change that waits for approval."""
    schedule = {"implementationStart": "2026-11-20T10:00", "implementationEnd": "2026-11-20T17:00"}
    facts = {"title": "Move the database", "schedule": schedule | {"timezone": "Europe/Berlin"}}
    return {"changeId": uuid.uuid4().hex, "version": 1, "status": "submitted", "changeMetadata": facts}
