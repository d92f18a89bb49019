"""Customers with SES accounts of their own in the local AWS."""

import dataclasses
import json
import random
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config

from postroom.aws.names import Names
from postroom.delivery import aws
from postroom.delivery.customer import Customer
from postroom.ledger.book import Book
from postroom.settings import settings

_SESSION = boto3.session.Session()
LIST = "people"
TOPICS = {"aws-approval": "OPT_OUT", "aws-announce": "OPT_IN", "aws-calendar": "OPT_OUT"}


@dataclasses.dataclass
class Account:
    """One AWS account: its customer, and what a test may do there."""

    url: str
    customer: Customer

    def client(self, service: str) -> Any:
        return _SESSION.client(  # type: ignore[call-overload]
            service,
            endpoint_url=self.url,
            region_name="eu-west-1",
            aws_access_key_id=self.customer.account,
            aws_secret_access_key="local",
            config=Config(max_pool_connections=32),
        )

    def subscribe(self, addresses: Iterable[str], topic: str | None = "aws-approval", status: str = "OPT_IN") -> None:
        """Contacts with a word about the topic; without a topic, contacts who said nothing."""
        ses = self.client("sesv2")
        said = [{"TopicName": topic, "SubscriptionStatus": status}] if topic else []

        def enter(address: str) -> None:
            ses.create_contact(ContactListName=LIST, EmailAddress=address, TopicPreferences=said)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(enter, addresses))

    def outbox(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/_postroom/outbox?account={self.customer.account}") as answer:
            return list(json.load(answer))

    def told(self) -> list[str]:
        """Everybody in the outbox, once per mail."""
        return sorted(mail["to"][0] for mail in self.outbox())

    def allow(self, **quota: float) -> None:
        url = f"{self.url}/_postroom/accounts/{self.customer.account}/quota"
        request = urllib.request.Request(url, json.dumps(quota).encode(), method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200


def open_account(url: str, code: str = "acme", **given: Any) -> Account:
    """A new account with a role, a verified sender and an empty list, allowed to send fast."""
    number = f"{random.SystemRandom().randrange(10**11, 10**12)}"
    customer = Customer(
        code=code,
        name="Acme Ltd",
        region="eu-west-1",
        ses_role_arn=f"arn:aws:iam::{number}:role/postroom-ses",
        sender="Change desk <desk@example.com>",
        timezone="Europe/Berlin",
        contact_list=LIST,
    )
    account = Account(url, dataclasses.replace(customer, **given))
    account.client("iam").create_role(RoleName="postroom-ses", AssumeRolePolicyDocument="{}")
    ses = account.client("sesv2")
    ses.create_email_identity(EmailIdentity="example.com")
    topics = [
        {"TopicName": name, "DisplayName": name, "DefaultSubscriptionStatus": status} for name, status in TOPICS.items()
    ]
    ses.create_contact_list(ContactListName=LIST, Topics=topics)
    account.allow(MaxSendRate=1000.0)
    return account


def change(**given: Any) -> dict[str, Any]:
    """A submitted change as the archive holds it, with an id of its own."""
    return {
        "changeId": f"chg-{random.SystemRandom().randrange(10**9)}",
        "version": 1,
        "status": "submitted",
        "changeMetadata": {
            "title": "Move the database",
            "customerCodes": ["acme"],
            "schedule": {
                "implementationStart": "2026-11-20T10:00",
                "implementationEnd": "2026-11-20T17:00",
                "timezone": "America/New_York",
            },
            "changeReason": "The old one is full.",
            "implementationPlan": "Copy it.\nSwitch over.",
            "tickets": {"jira": "INFRA-1"},
        },
    } | given


@pytest.fixture
def book(provisioned: Names) -> Iterator[Book]:
    aws.forget()
    yield Book(settings())
    aws.forget()


@pytest.fixture
def new_account(local_aws: str) -> Callable[..., Account]:
    return lambda code="acme", **given: open_account(local_aws, code, **given)


@pytest.fixture
def account(new_account: Callable[..., Account]) -> Account:
    return new_account()
