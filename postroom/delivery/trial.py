"""A test mail, sent as a customer's mail is sent: by its role, its SES and its sender."""

from __future__ import annotations

from email.utils import parseaddr

from botocore.exceptions import BotoCoreError, ClientError

from postroom.delivery import aws
from postroom.delivery.customer import Customer
from postroom.delivery.recipients import allowed
from postroom.errors import BadInput, Refused, classify

SUBJECT = "Test mail from the post room"


def checked(customer: Customer, address: str) -> str:
    """The address, if this customer's mail may go there."""
    bare = parseaddr(address)[1]
    if bare != address or "@" not in bare.strip("@"):
        raise BadInput(f"{address[:80]!r} is no mail address")
    if not allowed(bare, customer.recipients_allow):
        raise Refused(f"customer {customer.code}: recipients_allow does not let mail go to {bare}")
    return bare


def send_test_mail(customer: Customer, address: str) -> str:
    """SES's id of the mail; an error that says what to mend when it was not taken."""
    to = checked(customer, address)
    text = (
        f"This is a test. Mail for {customer.name} ({customer.code}) is sent by account {customer.account} "
        f"as {customer.sender}.\n\nNobody but you was told anything.\n"
    )
    try:
        answer = aws.sending(customer).send_email(
            FromEmailAddress=customer.mailbox,
            Destination={"ToAddresses": [to]},
            Content={"Simple": {"Subject": {"Data": SUBJECT}, "Body": {"Text": {"Data": text, "Charset": "UTF-8"}}}},
            **({"ConfigurationSetName": customer.configuration_set} if customer.configuration_set else {}),
            **({"ReplyToAddresses": [customer.reply_to]} if customer.reply_to else {}),
        )
    except (ClientError, BotoCoreError) as error:
        known = classify(error)
        raise type(known)(f"customer {customer.code}: the test mail was not sent: {known}") from None
    return str(answer["MessageId"])
