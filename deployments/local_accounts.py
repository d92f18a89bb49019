"""The customers' own accounts on the local AWS: what in AWS their owners set up, so that we may send for them.

    role that we assume · sending identity · contact list with our topics · sample contacts

Never in AWS: there the accounts are the customers'. Whether this is the local one is asked of the endpoint itself.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parseaddr
from typing import Annotated, Any, Literal

import boto3
from botocore.exceptions import ClientError
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from postroom.aws.clients import client_config
from postroom.aws.resource import Step, code_of
from postroom.delivery.customer import Customer
from postroom.errors import BadInput, explain

TOPICS = {
    "aws-approval": ("Approval requests", "OPT_OUT"),
    "aws-announce": ("Announcements", "OPT_IN"),
    "aws-calendar": ("Meetings", "OPT_OUT"),
}
_THERE = {"AlreadyExistsException", "EntityAlreadyExists", "EntityAlreadyExistsException"}


class Contact(BaseModel):
    """A sample contact; a topic it does not name follows the topic's default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    address: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]
    topics: dict[Literal["aws-approval", "aws-announce", "aws-calendar"], Literal["in", "out"]] = {}
    unsubscribed: bool = False


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    contacts: dict[str, Annotated[list[Contact], Field(max_length=50_000)]]


def read_contacts(document: str | bytes) -> dict[str, list[Contact]]:
    """Sample contacts by customer code; BadInput naming what is wrong."""
    try:
        return _File.model_validate_json(document).contacts
    except ValidationError as error:
        raise BadInput(explain(error)) from None


def is_local() -> bool:
    """Whether the AWS that this process talks to is the local one."""
    url = os.environ.get("AWS_ENDPOINT_URL")
    if not url or not url.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]")):
        return False
    try:
        with urllib.request.urlopen(f"{url}/_postroom/health", timeout=5) as answer:  # noqa: S310 - loopback http
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def furnish(
    customers: Iterable[Customer], contacts: Mapping[str, Sequence[Contact]], *, dry_run: bool = False
) -> list[Step]:
    """What the customers' accounts lack, created; the steps taken. Nothing that is there is altered."""
    steps: list[Step] = []
    for customer in customers:
        account = _Account(customer, dry_run)
        steps += [account.role(customer.ses_role_arn), account.identity(), account.contact_list()]
        if customer.identity_center_role_arn:
            steps.append(account.role(customer.identity_center_role_arn))
        steps.append(account.people(contacts.get(customer.code, ())))
    return steps


class _Account:
    def __init__(self, customer: Customer, dry_run: bool) -> None:
        # The local AWS takes a key of twelve digits for the account of that number.
        session = boto3.session.Session(aws_access_key_id=customer.account, aws_secret_access_key="local")  # noqa: S106
        given: dict[str, Any] = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"], "region_name": customer.region}
        self._iam = session.client("iam", config=client_config(), **given)
        self._ses = session.client("sesv2", config=client_config(), **given)
        self._customer, self._dry_run = customer, dry_run

    def role(self, arn: str) -> Step:
        name = arn.rsplit("/", 1)[-1]
        path = "/" + arn.partition(":role/")[2].removesuffix(name)
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
        }
        try:
            self._iam.get_role(RoleName=name)
        except ClientError as error:
            if code_of(error) not in ("NoSuchEntity", "NoSuchEntityException"):
                raise
            return self._make(
                "role",
                arn,
                lambda: self._iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps(trust)),
            )
        return Step("role", arn, "unchanged")

    def identity(self) -> Step:
        domain = parseaddr(self._customer.sender)[1].rpartition("@")[2]
        where = f"{self._customer.account}/{domain}"
        try:
            self._ses.get_email_identity(EmailIdentity=domain)
        except ClientError as error:
            if code_of(error) != "NotFoundException":
                raise
            return self._make("sending identity", where, lambda: self._ses.create_email_identity(EmailIdentity=domain))
        return Step("sending identity", where, "unchanged")

    def contact_list(self) -> Step:
        name = self._customer.contact_list
        topics = [
            {"TopicName": topic, "DisplayName": shown, "DefaultSubscriptionStatus": default}
            for topic, (shown, default) in TOPICS.items()
        ]
        where = f"{self._customer.account}/{name}"
        try:
            self._ses.get_contact_list(ContactListName=name)
        except ClientError as error:
            if code_of(error) != "NotFoundException":
                raise
            return self._make(
                "contact list", where, lambda: self._ses.create_contact_list(ContactListName=name, Topics=topics)
            )
        return Step("contact list", where, "unchanged")

    def people(self, contacts: Sequence[Contact]) -> Step:
        there = self._known()
        missing = [each for each in contacts if each.address.lower() not in there]
        where = f"{self._customer.code}: {len(contacts)} contacts"
        if not self._dry_run:
            for each in missing:
                self._add(each)
        differs = (f"{len(missing)} new",) if missing else ()
        return Step("contacts", where, "update" if missing else "unchanged", differs)

    def _known(self) -> set[str]:
        there: set[str] = set()
        more: dict[str, str] = {}
        while True:
            try:
                page = self._ses.list_contacts(ContactListName=self._customer.contact_list, PageSize=1000, **more)
            except ClientError as error:
                if code_of(error) == "NotFoundException":
                    return set()
                raise
            there |= {each["EmailAddress"].lower() for each in page["Contacts"]}
            if not page.get("NextToken"):
                return there
            more = {"NextToken": page["NextToken"]}

    def _add(self, contact: Contact) -> None:
        status = {"in": "OPT_IN", "out": "OPT_OUT"}
        try:
            self._ses.create_contact(
                ContactListName=self._customer.contact_list,
                EmailAddress=contact.address,
                TopicPreferences=[
                    {"TopicName": topic, "SubscriptionStatus": status[choice]}
                    for topic, choice in contact.topics.items()
                ],
                UnsubscribeAll=contact.unsubscribed,
            )
        except ClientError as error:
            if code_of(error) not in _THERE:
                raise

    def _make(self, kind: str, name: str, make: Any) -> Step:
        if not self._dry_run:
            try:
                make()
            except ClientError as error:
                if code_of(error) not in _THERE:  # someone was quicker
                    raise
        return Step(kind, name, "create")
