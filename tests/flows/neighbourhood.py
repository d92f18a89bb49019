"""Customers with accounts of their own on the local AWS, and the words with which tests speak of them."""

import json
import random
import urllib.request
import uuid
from typing import Any

from blocks.customer import save_customer
from deployments.local_accounts import Contact, furnish
from flows.change_to_notification import change_to_notification
from postroom.aws import provision
from postroom.aws.names import Names
from postroom.changes.model import Change
from postroom.changes.store import ChangeStore, open_store, trigger_key
from postroom.delivery import aws
from postroom.delivery.customer import Customer
from tests.postroom.changes.samples import written


class Neighbourhood:
    """Customers that no other test knows."""

    def __init__(self, names: Names, aws_url: str) -> None:
        self.names, self.url = names, aws_url
        self.mark = uuid.uuid4().hex[:8]
        self.customers: dict[str, Customer] = {}
        self.store: ChangeStore = open_store()
        aws.forget()

    async def add(
        self, name: str, *people: str, account: str = "", role: bool = True, queue: bool = False, **more: Any
    ) -> str:
        """The code of a new customer whose people have opted in to everything."""
        code = f"{name}-{self.mark}"
        account = account or f"{random.SystemRandom().randrange(10**12):012}"
        domain = f"{name}.example.com"
        customer = Customer(
            code=code,
            name=name.capitalize(),
            region="eu-west-1",
            ses_role_arn=f"arn:aws:iam::{account}:role/postroom-ses-{self.mark}",
            sender=f"changes@{domain}",
            timezone="Europe/Berlin",
            contact_list="changes",
            **more,
        )
        self.customers[code] = customer
        await save_customer(customer)
        if role:
            self.furnish(code, *people)
        if queue:
            provision.provision_customer(code)
        return code

    def furnish(self, code: str, *people: str) -> None:
        """What the customer's account needs, and its contacts."""
        every: Any = {"aws-approval": "in", "aws-announce": "in"}
        domain = self.customers[code].sender.partition("@")[2]
        contacts = [Contact(address=f"{person}@{domain}", topics=every) for person in people]
        furnish([self.customers[code]], {code: contacts})
        aws.forget()

    def submit(self, *codes: str, **fields: Any) -> Change:
        return self.store.submit(written(*codes, **fields), by="ann@example.com")

    async def run(self, change: Change, code: str, sequencer: str = "", /, **other: Any) -> Any:
        """The flow, as the sensor would have it run for this customer's trigger."""
        given = {
            "code": code,
            "change_id": change.change_id,
            "bucket": self.names.changes_bucket,
            "key": trigger_key(code, change.change_id),
            "sequencer": sequencer or uuid.uuid4().hex[:16].upper(),
        }
        return await change_to_notification(**{**given, **other})

    def outbox(self, code: str) -> list[dict[str, Any]]:
        """What the customer's account has sent."""
        url = f"{self.url}/_postroom/outbox?account={self.customers[code].account}"
        with urllib.request.urlopen(url) as answer:
            return list(json.load(answer))

    def allow(self, code: str, **quota: float) -> None:
        """Set MaxSendRate and Max24HourSend of the customer's account."""
        url = f"{self.url}/_postroom/accounts/{self.customers[code].account}/quota"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(quota).encode(), method="PUT")) as answer:
            assert answer.status == 200

    def weather(self, **wish: Any) -> None:
        """The local AWS is unwell for a while."""
        request = urllib.request.Request(f"{self.url}/_postroom/weather", json.dumps(wish).encode(), method="PUT")
        urllib.request.urlopen(request).close()

    def told(self, code: str) -> list[str]:
        return sorted(to for mail in self.outbox(code) for to in mail["to"])

    def triggers(self, change: Change) -> list[str]:
        return [code for code in self.customers if self.store.shelf.tag(trigger_key(code, change.change_id))]

    def processed(self, change: Change) -> list[str]:
        """Customers for whom the archive has an entry, one for each entry."""
        entries = self.store.read(change.change_id).modifications
        return [str(each.customer) for each in entries if each.type == "processed"]
