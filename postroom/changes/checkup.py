"""Whether we can send for a customer: asked of its account without sending anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parseaddr
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.resource import code_of
from postroom.changes.notices import ANNOUNCE, APPROVAL
from postroom.delivery import aws
from postroom.delivery.customer import Customer
from postroom.errors import Misconfigured, Missing, classify

CALENDAR = "aws-calendar"
EVENTS = ("SEND", "DELIVERY", "BOUNCE", "COMPLAINT", "REJECT")  # what the book has an ear for


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `said` is what is wrong, or what was found."""

    customer: str
    what: str
    good: bool
    said: str

    def as_json(self) -> dict[str, Any]:
        return {"customer": self.customer, "check": self.what, "ok": self.good, "detail": self.said}


def check(customer: Customer) -> list[Finding]:
    """The role, the sending identity, its events and the contact list; without a role nothing else is asked."""
    role = _look(customer, "role", lambda: f"leads to account {aws.check_role(customer)}")
    if not role.good:
        return [role]
    found = [
        role,
        _look(customer, "sending identity", lambda: _identity(customer)),
        _look(customer, "events", lambda: _events(customer)),
        _look(customer, "contact list", lambda: _contact_list(customer)),
    ]
    if customer.identity_center_role_arn:
        found.append(_look(customer, "identity center role", lambda: _identity_center(customer)))
    return found


def _look(customer: Customer, what: str, ask: Callable[[], str]) -> Finding:
    try:
        return Finding(customer.code, what, True, ask())
    except Exception as error:
        return Finding(customer.code, what, False, str(classify(error)))


def _identity(customer: Customer) -> str:
    identity, found = _sender(customer)
    if found.get("VerifiedForSendingStatus"):
        return f"{identity} may send"
    raise Misconfigured(f"{identity} is not verified yet")


def _sender(customer: Customer) -> tuple[str, dict[str, Any]]:
    """The identity that SES sends as, and what it says of it."""
    address = parseaddr(customer.sender)[1]
    for identity in (address, address.rpartition("@")[2]):
        try:
            return identity, aws.reading(customer).get_email_identity(EmailIdentity=identity)
        except ClientError as error:
            if code_of(error) != "NotFoundException":
                raise
    raise Missing(f"SES of account {customer.account} knows neither {address} nor its domain")


def _events(customer: Customer) -> str:
    """Whether SES says what becomes of mails: else nothing unknown is settled, and no bounce is heard of."""
    name = customer.configuration_set or _sender(customer)[1].get("ConfigurationSetName")
    if not name:
        raise Misconfigured("no configuration set, neither here (configuration_set) nor as the sender's default")
    found = aws.reading(customer).get_configuration_set_event_destinations(ConfigurationSetName=name)
    told = {kind for each in found["EventDestinations"] if each.get("Enabled") for kind in each["MatchingEventTypes"]}
    if missing := [kind for kind in EVENTS if kind not in told]:
        raise Misconfigured(f"configuration set {name} publishes no {', '.join(missing)}")
    return f"{name} publishes what becomes of mails"


def _identity_center(customer: Customer) -> str:
    aws.assume(customer.code, str(customer.identity_center_role_arn))
    return "can be assumed"


def _contact_list(customer: Customer) -> str:
    found = aws.reading(customer).get_contact_list(ContactListName=customer.contact_list)
    topics = {each["TopicName"] for each in found.get("Topics", [])}
    if missing := [topic for topic in (APPROVAL, ANNOUNCE, CALENDAR) if topic not in topics]:
        raise Misconfigured(f"{customer.contact_list} has no topic {', '.join(missing)}")
    return f"{customer.contact_list} has all topics"
