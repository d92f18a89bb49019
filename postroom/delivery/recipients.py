"""Whom a notice goes to: the contacts of a topic, page by page, so that a long list is never in memory."""

from __future__ import annotations

import hashlib
import heapq
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from postroom.delivery.asking import asked
from postroom.delivery.customer import Customer
from postroom.errors import BadInput, Missing, classify

PAGE = 500  # SES gives 1000 at most; a contact is some kilobytes once it is read


@dataclass(frozen=True)
class Recipient:
    """One contact of the topic. `suppressed` says why SES would not deliver to it."""

    address: str  # as the list spells it
    suppressed: str | None = None

    @property
    def key(self) -> str:
        """Two spellings are one person."""
        return self.address.lower()


@dataclass(frozen=True)
class Page:
    """Some of the contacts, and how many more were left out as not allowed."""

    recipients: list[Recipient]
    outside: int = 0


class Known:
    """A set of addresses in eight bytes each. It may take a stranger for one of its own, once in 10^13 times."""

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        self._sorted, self._fresh = array("Q"), set[int]()
        for address in addresses:
            self.add(address)

    def add(self, address: str) -> None:
        self._fresh.add(_print(address))
        if len(self._fresh) >= 4096:
            self._sorted = array("Q", heapq.merge(self._sorted, sorted(self._fresh)))
            self._fresh.clear()

    def __contains__(self, address: str) -> bool:
        wanted = _print(address)
        at = bisect_left(self._sorted, wanted)
        return wanted in self._fresh or (at < len(self._sorted) and self._sorted[at] == wanted)


def allowed(address: str, patterns: Iterable[str] | None) -> bool:
    """Whether the customer's `recipients_allow` lets us write to this address. No patterns at all: nobody.

    A pattern is an address or `*@domain`; None (not set) means everybody on the list.
    """
    if patterns is None:
        return True
    address = address.strip().lower()
    local, _, domain = address.rpartition("@")
    if not local:
        return False
    for pattern in patterns:
        wanted = pattern.strip().lower()
        if wanted.startswith("*@"):
            if wanted[2:] and "*" not in wanted[2:] and domain == wanted[2:]:
                return True
        elif wanted and "*" not in wanted and address == wanted:
            return True
    return False


async def recipients(ses: Any, customer: Customer, topic: str) -> AsyncIterator[Page]:
    """Pages of those who are subscribed to the topic, by their own word or by the topic's default."""
    await asked(_topic, ses, customer, topic)
    suppressed = await asked(lambda: Known(_suppressed(ses)))
    token: str | None = None
    began_again = False
    while True:
        try:
            contacts, token = await asked(_contacts, ses, customer, topic, token)
        except ClientError as error:
            # A token may grow too old while slow mail goes out. From the top again: who was told is in the book.
            if token is None or began_again or not isinstance(classify(error), BadInput):
                raise
            token, began_again = None, True
            continue
        yield await asked(_page, contacts, customer, lambda a: _why_suppressed(ses, a, suppressed))
        if token is None:
            return


async def only(pages: AsyncIterator[Page], wanted: Collection[str]) -> AsyncIterator[Page]:
    """Of the contacts, those whose lower-case addresses are wanted: who may not be told now is not among them."""
    async for page in pages:
        yield Page([each for each in page.recipients if each.key in wanted])


def _page(contacts: list[Any], customer: Customer, suppressed: Callable[[str], str | None]) -> Page:
    there: dict[str, Recipient] = {}
    outside = 0
    for contact in contacts:
        address = str(contact["EmailAddress"]).strip()
        if contact.get("UnsubscribeAll"):
            continue
        if not allowed(address, customer.recipients_allow):
            outside += 1
        elif address.lower() not in there:
            there[address.lower()] = Recipient(address, suppressed(address.lower()))
    return Page(list(there.values()), outside)


def _topic(ses: Any, customer: Customer, topic: str) -> None:
    """Raises when the customer's list or its topic is not there: better than telling nobody in silence."""
    try:
        there = ses.get_contact_list(ContactListName=customer.contact_list)
    except ClientError as error:
        ours = classify(error)
        if isinstance(ours, Missing):
            raise Missing(f"customer {customer.code}: contact list {customer.contact_list!r} is not there") from None
        raise
    names = [each["TopicName"] for each in there.get("Topics", [])]
    if topic not in names:
        raise BadInput(
            f"customer {customer.code}: contact list {customer.contact_list!r} has no topic {topic!r}, "
            f"only {', '.join(names) or 'none'}"
        )


def _contacts(ses: Any, customer: Customer, topic: str, token: str | None) -> tuple[list[Any], str | None]:
    answer = ses.list_contacts(
        ContactListName=customer.contact_list,
        PageSize=PAGE,
        Filter={
            "FilteredStatus": "OPT_IN",
            "TopicFilter": {"TopicName": topic, "UseDefaultIfPreferenceUnavailable": True},
        },
        **({"NextToken": token} if token else {}),
    )
    return answer.get("Contacts", []), answer.get("NextToken") or None


def _suppressed(ses: Any) -> Iterator[str]:
    token: str | None = None
    while True:
        answer = ses.list_suppressed_destinations(PageSize=PAGE, **({"NextToken": token} if token else {}))
        for each in answer.get("SuppressedDestinationSummaries", []):
            yield str(each["EmailAddress"]).lower()
        if not (token := answer.get("NextToken")):
            return


def _why_suppressed(ses: Any, address: str, suppressed: Known) -> str | None:
    """SES's own reason (BOUNCE, COMPLAINT), asked for only where the short list says that there may be one."""
    if address not in suppressed:
        return None
    try:
        found = ses.get_suppressed_destination(EmailAddress=address)
    except ClientError as error:
        if isinstance(classify(error), Missing):
            return None
        raise
    return str(found["SuppressedDestination"]["Reason"])


def _print(address: str) -> int:
    return int.from_bytes(hashlib.blake2b(address.lower().encode(), digest_size=8).digest(), "big")
