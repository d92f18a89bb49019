"""An account's quotas, identities, suppression list and configuration sets."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from deployments.local_aws.ses.records import Records, paged
from deployments.local_aws.ses.wire import Call, Operation, Refused

HOUSE_SET = "post-room"  # every identity's default: mail without a set tells the post room that runs here
HOUSE_DESTINATION = {
    "Name": "post-room",
    "Enabled": True,
    "MatchingEventTypes": ["SEND", "REJECT", "BOUNCE", "COMPLAINT", "DELIVERY"],
}
REASONS = ("BOUNCE", "COMPLAINT")
DEFAULTS: dict[str, Any] = {
    "Max24HourSend": 50_000.0,
    "MaxSendRate": 14.0,
    "SendingEnabled": True,
    "SuppressedReasons": list(REASONS),
}


class Account:
    def __init__(self, records: Records) -> None:
        self.records = records

    def operations(self) -> dict[str, Operation]:
        return {
            "GetAccount": self.get,
            "PutAccountSuppressionAttributes": self.suppress_for,
            "PutAccountSendingAttributes": self.enable,
            "CreateEmailIdentity": self.create_identity,
            "GetEmailIdentity": self.get_identity,
            "DeleteEmailIdentity": self.delete_identity,
            "ListEmailIdentities": self.list_identities,
            "PutSuppressedDestination": self.suppress,
            "GetSuppressedDestination": self.get_suppressed,
            "DeleteSuppressedDestination": self.unsuppress,
            "ListSuppressedDestinations": self.list_suppressed,
            "CreateConfigurationSet": self.create_set,
            "GetConfigurationSet": self.get_set,
            "DeleteConfigurationSet": self.delete_set,
            "CreateConfigurationSetEventDestination": self.create_destination,
            "GetConfigurationSetEventDestinations": self.get_destinations,
        }

    def settings(self, account: str) -> dict[str, Any]:
        return DEFAULTS | (self.records.get(account, "account", "") or {})

    def change(self, account: str, **settings: Any) -> None:
        self.records.put(account, "account", "", self.settings(account) | settings)

    def get(self, call: Call) -> dict[str, Any]:
        settings = self.settings(call.account)
        return {
            "DedicatedIpAutoWarmupEnabled": False,
            "EnforcementStatus": "HEALTHY",
            "ProductionAccessEnabled": True,
            "SendingEnabled": settings["SendingEnabled"],
            "SendQuota": {
                "Max24HourSend": settings["Max24HourSend"],
                "MaxSendRate": settings["MaxSendRate"],
                "SentLast24Hours": float(self.records.sent_last_day(call.account)),
            },
            "SuppressionAttributes": {"SuppressedReasons": settings["SuppressedReasons"]},
        }

    def suppress_for(self, call: Call) -> dict[str, Any]:
        reasons = call.given.get("SuppressedReasons") or []
        for reason in reasons:
            _reason(reason)
        self.change(call.account, SuppressedReasons=reasons)
        return {}

    def enable(self, call: Call) -> dict[str, Any]:
        self.change(call.account, SendingEnabled=bool(call.given.get("SendingEnabled", False)))
        return {}

    # identities: verified as soon as they are made, for nobody here could answer the verification

    def create_identity(self, call: Call) -> dict[str, Any]:
        name = call.text("EmailIdentity")
        if self.records.get(call.account, "identity", name.lower()):
            raise Refused("AlreadyExistsException", f"Email identity {name} already exist.")
        self.records.put(call.account, "identity", name.lower(), {"name": name, "tags": call.given.get("Tags", [])})
        return {"IdentityType": _kind(name), "VerifiedForSendingStatus": True, "DkimAttributes": _dkim(name)}

    def get_identity(self, call: Call) -> dict[str, Any]:
        document = self._identity(call)
        return {
            "IdentityType": _kind(document["name"]),
            "VerifiedForSendingStatus": True,
            "VerificationStatus": "SUCCESS",
            "FeedbackForwardingStatus": True,
            "ConfigurationSetName": HOUSE_SET,
            "DkimAttributes": _dkim(document["name"]),
            "Policies": {},
            "Tags": document["tags"],
        }

    def delete_identity(self, call: Call) -> dict[str, Any]:
        self.records.drop(call.account, "identity", self._identity(call)["name"].lower())
        return {}

    def list_identities(self, call: Call) -> dict[str, Any]:
        found = self.records.walk(call.account, "identity", call.given.get("NextToken") or "")
        page, token = paged(found, call.given.get("PageSize"))
        identities = [
            {
                "IdentityType": _kind(document["name"]),
                "IdentityName": document["name"],
                "SendingEnabled": True,
                "VerificationStatus": "SUCCESS",
            }
            for _, document in page
        ]
        return {"EmailIdentities": identities} | ({"NextToken": token} if token else {})

    def verified(self, account: str, address: str) -> bool:
        """Whether the address, its domain or a domain above it is an identity of the account."""
        domain = address.lower().rpartition("@")[2]
        labels = domain.split(".")
        names = [address.lower(), *(".".join(labels[start:]) for start in range(len(labels)))]
        return any(self.records.get(account, "identity", name) for name in names)

    def _identity(self, call: Call) -> dict[str, Any]:
        name = call.text("EmailIdentity")
        document = self.records.get(call.account, "identity", name.lower())
        if document is None:
            raise Refused("NotFoundException", f"Email identity {name} does not exist.")
        return document

    # suppression

    def suppress(self, call: Call) -> dict[str, Any]:
        address = call.text("EmailAddress")
        self.put_suppressed(call.account, address, _reason(call.text("Reason")))
        return {}

    def put_suppressed(self, account: str, address: str, reason: str) -> None:
        document = {"EmailAddress": address.lower(), "Reason": reason, "LastUpdateTime": time.time()}
        self.records.put(account, "suppressed", address.lower(), document)

    def get_suppressed(self, call: Call) -> dict[str, Any]:
        return {"SuppressedDestination": self._suppressed(call)}

    def unsuppress(self, call: Call) -> dict[str, Any]:
        self.records.drop(call.account, "suppressed", self._suppressed(call)["EmailAddress"])
        return {}

    def list_suppressed(self, call: Call) -> dict[str, Any]:
        reasons = call.given.get("Reasons") or REASONS
        since, until = _moment(call.given.get("StartDate"), 0.0), _moment(call.given.get("EndDate"), float("inf"))
        found = (
            (name, document)
            for name, document in self.records.walk(call.account, "suppressed", call.given.get("NextToken") or "")
            if document["Reason"] in reasons and since <= document["LastUpdateTime"] <= until
        )
        page, token = paged(found, call.given.get("PageSize"))
        answer: dict[str, Any] = {"SuppressedDestinationSummaries": [document for _, document in page]}
        return answer | ({"NextToken": token} if token else {})

    def suppression(self, account: str, address: str) -> str | None:
        """Why a mail to this address would not leave, or None."""
        document = self.records.get(account, "suppressed", address.lower())
        if document and document["Reason"] in self.settings(account)["SuppressedReasons"]:
            return str(document["Reason"])
        return None

    def _suppressed(self, call: Call) -> dict[str, Any]:
        address = call.text("EmailAddress")
        document = self.records.get(call.account, "suppressed", address.lower())
        if document is None:
            raise Refused("NotFoundException", f"Email address {address} does not exist on your suppression list.")
        return document

    # configuration sets, for the events they publish

    def create_set(self, call: Call) -> dict[str, Any]:
        name = call.text("ConfigurationSetName")
        if self.records.get(call.account, "set", name):
            raise Refused("AlreadyExistsException", f"Configuration set <{name}> already exists.")
        self.records.put(call.account, "set", name, {"name": name, "tags": call.given.get("Tags", []), "to": []})
        return {}

    def get_set(self, call: Call) -> dict[str, Any]:
        document = self.configuration(call.account, call.text("ConfigurationSetName"))
        return {"ConfigurationSetName": document["name"], "Tags": document["tags"]}

    def delete_set(self, call: Call) -> dict[str, Any]:
        document = self.configuration(call.account, call.text("ConfigurationSetName"))
        self.records.drop(call.account, "set", document["name"])
        return {}

    def create_destination(self, call: Call) -> dict[str, Any]:
        document = self.configuration(call.account, call.text("ConfigurationSetName"))
        name, wish = call.text("EventDestinationName"), call.given.get("EventDestination") or {}
        if any(each["Name"] == name for each in document["to"]):
            raise Refused("AlreadyExistsException", f"Event destination <{name}> already exists.")
        if not wish.get("SnsDestination", {}).get("TopicArn"):
            raise Refused("BadRequestException", "The local SES publishes events to SNS topics only.")
        document["to"].append({"Name": name, **wish})
        self.records.put(call.account, "set", document["name"], document)
        return {}

    def get_destinations(self, call: Call) -> dict[str, Any]:
        if call.text("ConfigurationSetName") == HOUSE_SET:
            return {"EventDestinations": [HOUSE_DESTINATION]}
        return {"EventDestinations": self.configuration(call.account, call.text("ConfigurationSetName"))["to"]}

    def configuration(self, account: str, name: str) -> dict[str, Any]:
        document = self.records.get(account, "set", name)
        if document is None:
            raise Refused("NotFoundException", f"Configuration set <{name}> does not exist.")
        return document


def _reason(reason: str) -> str:
    if reason not in REASONS:
        raise Refused("BadRequestException", f"Reason must be one of {', '.join(REASONS)}.")
    return reason


def _kind(identity: str) -> str:
    return "EMAIL_ADDRESS" if "@" in identity else "DOMAIN"


def _dkim(identity: str) -> dict[str, Any]:
    return {"SigningEnabled": "@" not in identity, "Status": "SUCCESS" if "@" not in identity else "NOT_STARTED"}


def _moment(text: str | None, otherwise: float) -> float:
    if text is None:
        return otherwise
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Refused("BadRequestException", f"{text} isn't a date.") from None
