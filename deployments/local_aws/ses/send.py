"""SendEmail: checked, paced, list-managed; every mail complete in the outbox."""

from __future__ import annotations

import time
import uuid
from email.utils import getaddresses
from typing import Any

from deployments.local_aws.ses.account import Account
from deployments.local_aws.ses.events import Told, moment, simulated
from deployments.local_aws.ses.letter import Letter, bare, finish, written
from deployments.local_aws.ses.lists import Lists, standing
from deployments.local_aws.ses.pace import Pace
from deployments.local_aws.ses.records import Records
from deployments.local_aws.ses.wire import Call, Operation, Refused

MOST_RECIPIENTS = 50
MOST_BYTES = 40 * 1024 * 1024


class Sending:
    def __init__(self, records: Records, account: Account, lists: Lists, home: str) -> None:
        self.records, self.account, self.lists, self.home = records, account, lists, home
        self.paces: dict[str, Pace] = {}

    def operations(self) -> dict[str, Operation]:
        return {"SendEmail": self.send}

    def send(self, call: Call) -> dict[str, Any]:
        letter = written(call.given)
        recipients = [bare(address) for address in letter.recipients]
        if len(recipients) > MOST_RECIPIENTS:
            raise Refused("BadRequestException", f"Recipient count exceeds {MOST_RECIPIENTS}.")
        options = call.given.get("ListManagementOptions") or {}
        topics = self.lists.found(call.account, options["ContactListName"]) if options else None
        name = call.given.get("ConfigurationSetName")
        destinations = self.account.configuration(call.account, name)["to"] if name else []
        tags = {tag["Name"]: tag["Value"] for tag in call.given.get("EmailTags") or []}
        self._permit(call, letter)
        message_id = f"{int(time.time() * 1000):016x}-{uuid.uuid4()}-000000"
        if topics is not None and len(recipients) == 1:
            letter.offer_unsubscribe(f"https://unsubscribe.example.com/{call.account}/{message_id}")
        finish(letter, message_id, call.region)
        content = letter.content()
        if len(content) > MOST_BYTES:
            raise Refused("BadRequestException", f"Message length is more than {MOST_BYTES} bytes long.")
        counted = sum(simulated(address) is None for address in recipients)
        self._within_quota(call.account, len(recipients), counted)

        at = time.time()
        mail = _described(letter, call, message_id, recipients, tags, at)
        told = Told(mail, at, destinations, self.home, call.region)
        told.send()
        outcomes: dict[str, list[str]] = {}
        for address in recipients:
            outcome = self._outcome(call, told, address, topics, options.get("TopicName"))
            outcomes.setdefault(outcome, []).append(address)
        shown = letter.shown()
        for number, (outcome, addresses) in enumerate(outcomes.items()):
            row = {"at": moment(at), "account": call.account, **shown, "to": addresses, "tags": tags}
            row |= {"outcome": outcome, "message_id": message_id}
            self.records.post(call.account, message_id, row, at, counted if number == 0 else 0)
        self.records.keep_raw(message_id, content)
        return {"MessageId": message_id}

    def _permit(self, call: Call, letter: Letter) -> None:
        if not self.account.settings(call.account)["SendingEnabled"]:
            raise Refused("SendingPausedException", "Email sending is disabled for this account.")
        sender = bare(letter.sender)
        if not self.account.verified(call.account, sender):
            raise Refused(
                "MessageRejected",
                "Email address is not verified. The following identities failed the check in region "
                f"{call.region.upper()}: {sender}",
            )

    def _within_quota(self, account: str, recipients: int, counted: int) -> None:
        settings = self.account.settings(account)
        if counted and self.records.sent_last_day(account) + counted > settings["Max24HourSend"] >= 0:
            raise Refused("LimitExceededException", "Daily message quota exceeded.")
        pace = self.paces.setdefault(account, Pace())
        if not pace.take(recipients, settings["MaxSendRate"]):
            raise Refused("TooManyRequestsException", "Maximum sending rate exceeded.")

    def _outcome(self, call: Call, told: Told, address: str, topics: dict[str, Any] | None, topic: str | None) -> str:
        """What becomes of one recipient, told as events."""
        if topics is not None and self._unsubscribed(call.account, address, topics, topic):
            told.bounce(address, "UnsubscribedRecipient", "Recipient has unsubscribed from the topic.")
            return "unsubscribed"
        if reason := self.account.suppression(call.account, address):
            if reason == "BOUNCE":
                told.bounce(address, "OnAccountSuppressionList")
            else:
                told.complaint(address, "OnAccountSuppressionList")
            return "suppressed"
        mailbox = simulated(address)
        if mailbox == "suppressionlist":
            told.bounce(address, "Suppressed", "Amazon SES did not send the message to this address.")
            return "suppressed"
        if mailbox == "bounce":
            told.bounce(address, "General", "smtp; 550 5.1.1 user unknown")
            return "bounced"
        told.delivery(address)
        if mailbox == "complaint":
            told.complaint(address)
        return "delivered"

    def _unsubscribed(self, account: str, address: str, topics: dict[str, Any], topic: str | None) -> bool:
        contact = self.records.get(account, "contact", address.lower())
        if contact is None:  # SES enters an unknown recipient into the list, with the topics' defaults
            now = time.time()
            contact = {"EmailAddress": address, "TopicPreferences": [], "UnsubscribeAll": False}
            contact |= {"CreatedTimestamp": now, "LastUpdatedTimestamp": now}
            self.records.put(account, "contact", address.lower(), contact)
        return standing(contact, topics, topic, use_default=True) == "OPT_OUT"


def _described(
    letter: Letter, call: Call, message_id: str, recipients: list[str], tags: dict[str, str], at: float
) -> dict[str, Any]:
    """The `mail` object of SES's events."""
    headers = [{"name": name, "value": value} for name, value in letter.headers()]
    addressed = [value for name, value in letter.headers() if name.lower() == "to"]
    common: dict[str, Any] = {
        "from": [letter.sender],
        "to": [address for _, address in getaddresses(addressed) if address],
        "messageId": message_id,
        "subject": letter.header("Subject"),
    }
    source = bare(letter.sender)
    return {
        "timestamp": moment(at),
        "source": letter.sender,
        "sourceArn": f"arn:aws:ses:{call.region}:{call.account}:identity/{source}",
        "sendingAccountId": call.account,
        "messageId": message_id,
        "destination": recipients,
        "headersTruncated": False,
        "headers": headers,
        "commonHeaders": common,
        "tags": {name: [value] for name, value in tags.items()} | {"ses:from-domain": [source.rpartition("@")[2]]},
    }
