"""Contact lists and contacts: one list per account, twenty topics, preferences with the topic's default."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from deployments.local_aws.ses.records import Records, paged
from deployments.local_aws.ses.wire import Call, Operation, Refused

MOST_TOPICS = 20
STATUSES = ("OPT_IN", "OPT_OUT")


class Lists:
    def __init__(self, records: Records) -> None:
        self.records = records

    def operations(self) -> dict[str, Operation]:
        return {
            "CreateContactList": self.create_list,
            "GetContactList": self.get_list,
            "UpdateContactList": self.update_list,
            "DeleteContactList": self.delete_list,
            "ListContactLists": self.list_lists,
            "CreateContact": self.create,
            "GetContact": self.get,
            "UpdateContact": self.update,
            "DeleteContact": self.delete,
            "ListContacts": self.list,
        }

    def create_list(self, call: Call) -> dict[str, Any]:
        name = call.text("ContactListName")
        for other, _ in self.records.walk(call.account, "list"):
            if other == name:
                raise Refused("AlreadyExistsException", f"List with name: {name} already exists.")
            raise Refused("LimitExceededException", "Maximum number of contact lists reached: 1.")
        now = time.time()
        document = {
            "ContactListName": name,
            "Topics": _topics(call.given.get("Topics", [])),
            "CreatedTimestamp": now,
            "LastUpdatedTimestamp": now,
            "Tags": call.given.get("Tags", []),
        }
        if "Description" in call.given:
            document["Description"] = call.given["Description"]
        self.records.put(call.account, "list", name, document)
        return {}

    def get_list(self, call: Call) -> dict[str, Any]:
        return self.found(call.account, call.text("ContactListName"))

    def update_list(self, call: Call) -> dict[str, Any]:
        document = self.found(call.account, call.text("ContactListName"))
        if "Topics" in call.given:
            document["Topics"] = _topics(call.given["Topics"])
        if "Description" in call.given:
            document["Description"] = call.given["Description"]
        document["LastUpdatedTimestamp"] = time.time()
        self.records.put(call.account, "list", document["ContactListName"], document)
        return {}

    def delete_list(self, call: Call) -> dict[str, Any]:
        document = self.found(call.account, call.text("ContactListName"))
        self.records.drop(call.account, "list", document["ContactListName"])
        self.records.drop_all(call.account, "contact")
        return {}

    def list_lists(self, call: Call) -> dict[str, Any]:
        shown = ("ContactListName", "LastUpdatedTimestamp")
        return {
            "ContactLists": [
                {name: document[name] for name in shown} for _, document in self.records.walk(call.account, "list")
            ]
        }

    def create(self, call: Call) -> dict[str, Any]:
        topics = self.found(call.account, call.text("ContactListName"))
        address = _address(call)
        if self.records.get(call.account, "contact", address.lower()):
            raise Refused("AlreadyExistsException", f"Contact with email address {address} already exists.")
        now = time.time()
        contact = {"EmailAddress": address, "CreatedTimestamp": now, "UnsubscribeAll": False, "TopicPreferences": []}
        self._save(call, topics, contact, now)
        return {}

    def get(self, call: Call) -> dict[str, Any]:
        topics = self.found(call.account, call.text("ContactListName"))
        contact = self.contact(call.account, _address(call))
        return {"ContactListName": topics["ContactListName"], **_with_defaults(contact, topics)}

    def update(self, call: Call) -> dict[str, Any]:
        topics = self.found(call.account, call.text("ContactListName"))
        contact = self.contact(call.account, _address(call))
        self._save(call, topics, contact, time.time())
        return {}

    def delete(self, call: Call) -> dict[str, Any]:
        self.found(call.account, call.text("ContactListName"))
        contact = self.contact(call.account, _address(call))
        self.records.drop(call.account, "contact", contact["EmailAddress"].lower())
        return {}

    def list(self, call: Call) -> dict[str, Any]:
        topics = self.found(call.account, call.text("ContactListName"))
        wanted = self._filtered(call, topics, call.given.get("Filter") or {})
        page, token = paged(wanted, call.given.get("PageSize"))
        shown = (
            "EmailAddress",
            "TopicPreferences",
            "TopicDefaultPreferences",
            "UnsubscribeAll",
            "LastUpdatedTimestamp",
        )
        contacts = [_with_defaults(contact, topics) for _, contact in page]
        answer: dict[str, Any] = {"Contacts": [{name: contact[name] for name in shown} for contact in contacts]}
        return answer | ({"NextToken": token} if token else {})

    def _filtered(
        self, call: Call, topics: dict[str, Any], wish: dict[str, Any]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        status, by_topic = wish.get("FilteredStatus"), wish.get("TopicFilter") or {}
        if status is not None and status not in STATUSES:
            raise Refused("BadRequestException", f"FilteredStatus must be one of {', '.join(STATUSES)}.")
        topic, use_default = by_topic.get("TopicName"), bool(by_topic.get("UseDefaultIfPreferenceUnavailable"))
        if topic is not None:
            _known(topic, topics)
        if by_topic and status is None:
            raise Refused("BadRequestException", "FilteredStatus must be given with TopicFilter.")
        for name, contact in self.records.walk(call.account, "contact", call.given.get("NextToken") or ""):
            if status is None or standing(contact, topics, topic, use_default) == status:
                yield name, contact

    def found(self, account: str, name: str) -> dict[str, Any]:
        document = self.records.get(account, "list", name)
        if document is None:
            raise Refused("NotFoundException", f"List with name: {name} doesn't exist.")
        return document

    def contact(self, account: str, address: str) -> dict[str, Any]:
        contact = self.records.get(account, "contact", address.lower())
        if contact is None:
            raise Refused("NotFoundException", f"{address} doesn't exist in the contact list.")
        return contact

    def _save(self, call: Call, topics: dict[str, Any], contact: dict[str, Any], now: float) -> None:
        if "TopicPreferences" in call.given:
            for preference in call.given["TopicPreferences"]:
                _known(preference.get("TopicName"), topics)
                if preference.get("SubscriptionStatus") not in STATUSES:
                    raise Refused("BadRequestException", f"SubscriptionStatus must be one of {', '.join(STATUSES)}.")
            contact["TopicPreferences"] = call.given["TopicPreferences"]
        if "UnsubscribeAll" in call.given:
            contact["UnsubscribeAll"] = bool(call.given["UnsubscribeAll"])
        if "AttributesData" in call.given:
            contact["AttributesData"] = call.given["AttributesData"]
        contact["LastUpdatedTimestamp"] = now
        self.records.put(call.account, "contact", contact["EmailAddress"].lower(), contact)


def standing(contact: dict[str, Any], topics: dict[str, Any], topic: str | None, use_default: bool) -> str | None:
    """OPT_IN or OPT_OUT; None when the contact said nothing and the default may not be used."""
    if contact["UnsubscribeAll"]:
        return "OPT_OUT"
    if topic is None:
        return "OPT_IN"
    for preference in contact["TopicPreferences"]:
        if preference["TopicName"] == topic:
            return str(preference["SubscriptionStatus"])
    return defaults(topics).get(topic) if use_default else None


def defaults(topics: dict[str, Any]) -> dict[str, str]:
    return {topic["TopicName"]: topic["DefaultSubscriptionStatus"] for topic in topics["Topics"]}


def _with_defaults(contact: dict[str, Any], topics: dict[str, Any]) -> dict[str, Any]:
    said = {preference["TopicName"] for preference in contact["TopicPreferences"]}
    unsaid = [
        {"TopicName": name, "SubscriptionStatus": status}
        for name, status in defaults(topics).items()
        if name not in said
    ]
    return {**contact, "TopicDefaultPreferences": unsaid}


def _topics(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(given) > MOST_TOPICS:
        raise Refused("BadRequestException", f"A contact list can't have more than {MOST_TOPICS} topics.")
    names = [topic.get("TopicName") for topic in given]
    if len(set(names)) != len(names):
        raise Refused("BadRequestException", "Topic names must be unique.")
    for topic in given:
        if not topic.get("TopicName") or not topic.get("DisplayName"):
            raise Refused("BadRequestException", "A topic needs TopicName and DisplayName.")
        if topic.get("DefaultSubscriptionStatus") not in STATUSES:
            raise Refused("BadRequestException", f"DefaultSubscriptionStatus must be one of {', '.join(STATUSES)}.")
    return given


def _known(topic: Any, topics: dict[str, Any]) -> None:
    if topic not in defaults(topics):
        raise Refused("BadRequestException", f"Topic {topic} doesn't exist in the contact list.")


def _address(call: Call) -> str:
    address = call.text("EmailAddress")
    local, _, domain = address.rpartition("@")
    if not local or "." not in domain or any(character.isspace() for character in address):
        raise Refused("BadRequestException", f"{address} isn't a valid email address.")
    return address
