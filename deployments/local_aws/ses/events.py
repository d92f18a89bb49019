"""What SES tells of a mail: Send, Delivery, Bounce, Complaint, in its own words, by SNS."""

from __future__ import annotations

import json
import os
import uuid
from datetime import UTC, datetime
from typing import Any

from ministack.services import sns, sqs

SIMULATOR = "simulator.amazonses.com"


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Told:
    """The events of one mail, published in the order in which SES would."""

    def __init__(self, mail: dict[str, Any], at: float, topics: list[dict[str, Any]], home: str, region: str) -> None:
        self.mail, self.at, self.topics, self.home, self.region = mail, at, topics, home, region

    def send(self) -> None:
        self._publish("Send", {})

    def delivery(self, address: str) -> None:
        detail = {
            "timestamp": moment(self.at),
            "processingTimeMillis": 1,
            "recipients": [address],
            "smtpResponse": "250 2.0.0 OK",
            "reportingMTA": "local.amazonses.com",
        }
        self._publish("Delivery", detail)

    def bounce(self, address: str, subtype: str, diagnosis: str = "") -> None:
        recipient = {"emailAddress": address, "action": "failed", "status": "5.1.1"}
        if diagnosis:
            recipient["diagnosticCode"] = diagnosis
        detail = {
            "feedbackId": str(uuid.uuid4()),
            "bounceType": "Permanent",
            "bounceSubType": subtype,
            "bouncedRecipients": [recipient],
            "timestamp": moment(self.at),
            "reportingMTA": "dns; local.amazonses.com",
        }
        self._publish("Bounce", detail)

    def complaint(self, address: str, subtype: str | None = None) -> None:
        detail = {
            "feedbackId": str(uuid.uuid4()),
            "complaintSubType": subtype,
            "complainedRecipients": [{"emailAddress": address}],
            "timestamp": moment(self.at),
        }
        if subtype is None:
            detail |= {"userAgent": "local simulator", "complaintFeedbackType": "abuse", "arrivalDate": moment(self.at)}
        self._publish("Complaint", detail)

    def _publish(self, kind: str, detail: dict[str, Any]) -> None:
        body = json.dumps({"eventType": kind, "mail": self.mail, kind.lower(): detail})
        for topic in self.topics:
            if topic.get("Enabled") and kind.upper() in topic.get("MatchingEventTypes", []):
                subject = "Amazon SES Email Event Notification"
                sns._fanout(topic["SnsDestination"]["TopicArn"], str(uuid.uuid4()), body, subject)
        if not self.topics:
            self._to_the_house(body)

    def _to_the_house(self, body: str) -> None:
        """A send without configuration set tells the post room that runs here, as if one were set up for it."""
        name = f"{os.environ.get('POSTROOM_PREFIX', 'postroom')}-ses-events"
        queue = sqs._queue_by_arn(f"arn:aws:sqs:{self.region}:{self.home}:{name}")
        if queue is None:
            return
        envelope = {
            "Type": "Notification",
            "MessageId": str(uuid.uuid4()),
            "TopicArn": f"arn:aws:sns:{self.region}:{self.home}:{name}",
            "Subject": "Amazon SES Email Event Notification",
            "Message": body,
            "Timestamp": moment(self.at),
        }
        message = {"id": str(uuid.uuid4()), "body": json.dumps(envelope)}
        sqs._ensure_msg_fields(message)
        queue["messages"].append(message)


def simulated(address: str) -> str | None:
    """Which mailbox of SES's simulator this is (`bounce`, `complaint`, …), or None."""
    local, _, domain = address.lower().rpartition("@")
    return local.split("+")[0] if domain == SIMULATOR else None
