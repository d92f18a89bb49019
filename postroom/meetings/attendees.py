"""Who is invited: the subscribers of `aws-calendar` of every affected customer, each person once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from postroom.delivery import aws
from postroom.delivery.asking import asked
from postroom.delivery.customer import Customer
from postroom.delivery.recipients import recipients
from postroom.errors import PostroomError, classify
from postroom.meetings.meeting import fingerprint

log = logging.getLogger("postroom.meetings")
TOPIC = "aws-calendar"
AT_ONCE = 8


@dataclass(frozen=True)
class Person:
    """One attendee, invited in the name of the first customer that lists them."""

    address: str
    customer: str


@dataclass(frozen=True)
class Attendees:
    """People by lower-case address, and the customers whose lists could not be read."""

    people: Mapping[str, Person] = field(default_factory=dict)
    unread: Mapping[str, PostroomError] = field(default_factory=dict)

    @property
    def print(self) -> str:
        """Changes when other people are invited."""
        return fingerprint(sorted(self.people))

    def of(self, code: str) -> list[str]:
        """The addresses that a customer invites."""
        return [person.address for person in self.people.values() if person.customer == code]

    def joined(self, others: Sequence[str]) -> Attendees:
        """With those, too, who were invited before: nobody is put off because a list could not be read."""
        known = {address.lower(): Person(address, "") for address in others}
        return Attendees({**known, **self.people}, self.unread)


async def gather(customers: Sequence[Customer], missing: Mapping[str, PostroomError] | None = None) -> Attendees:
    """Everybody who is subscribed at one of the customers; one customer's trouble is no other's."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def read(customer: Customer) -> list[str] | PostroomError:
        async with turns:
            try:
                return await _subscribers(customer)
            except Exception as error:
                log.warning("customer %s: its subscribers can't be read: %s", customer.code, classify(error))
                return classify(error)

    people: dict[str, Person] = {}
    unread = dict(missing or {})
    for customer, found in zip(customers, await asyncio.gather(*map(read, customers)), strict=True):
        if isinstance(found, PostroomError):
            unread[customer.code] = found
            continue
        for address in found:
            people.setdefault(address.lower(), Person(address, customer.code))
    return Attendees(people, unread)


async def _subscribers(customer: Customer) -> list[str]:
    ses = await asked(aws.reading, customer)
    found: list[str] = []
    async for page in recipients(ses, customer, TOPIC):
        found += [each.address for each in page.recipients if each.suppressed is None]
    return found
