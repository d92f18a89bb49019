"""A change as a person submits it, in a whole post room with thirty customers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest

from deployments.local_accounts import read_contacts
from postroom.changes.customers import read_customers
from postroom.delivery.recipients import allowed
from tests.fixtures.room import Aws, Room, call, until

EXAMPLES = Path(__file__).parents[2] / "examples"
CUSTOMERS = read_customers((EXAMPLES / "customers.json").read_bytes())
CONTACTS = read_contacts((EXAMPLES / "contacts.json").read_bytes())
CHANGE = json.loads((EXAMPLES / "change.json").read_text())
CODES = CHANGE["changeMetadata"]["customerCodes"]
REQUESTED = "Approval requested"


def opted_in(codes: list[str]) -> Counter[tuple[str, str]]:
    """(account, address) of everybody who asked for approval requests, once each."""
    found = {
        (CUSTOMERS[code].account, contact.address)
        for code in codes
        for contact in CONTACTS.get(code, [])
        if contact.topics.get("aws-approval") == "in"
        and not contact.unsubscribed
        and allowed(contact.address, CUSTOMERS[code].recipients_allow)
    }
    return Counter(found)


def told(room: Room, change_id: str) -> Counter[tuple[str, str]]:
    """(account, address) of every notice of the change in the outbox, once per mail."""
    mails = room.json("mail", "outbox")
    notices = [mail for mail in mails if mail["subject"].startswith(REQUESTED) and change_id in mail["text"]]
    return Counter((mail["account"], to) for mail in notices for to in mail["to"])


def triggers(room: Room) -> list[str]:
    listed = Aws(room.status()["aws"]).s3.list_objects_v2(Bucket="postroom-changes", Prefix="customers/")
    return [each["Key"] for each in listed.get("Contents", [])]


@pytest.fixture
def customers(post_room: Room) -> Room:
    done = post_room("customers", "load", str(EXAMPLES / "customers.json"))
    assert done.returncode == 0, done.stderr
    return post_room


@pytest.mark.timeout(1800)
def test_the_example_change_reaches_everybody_of_thirty_customers_once(customers: Room) -> None:
    room = customers
    found = room.json("change", "submit", str(EXAMPLES / "change.json"), "--wait")
    change_id = found["changeId"]
    assert {code: each["status"] for code, each in found["customers"].items()} == dict.fromkeys(CODES, "done")
    assert len(CODES) == 30
    wanted = opted_in(CODES)
    assert len(wanted) > 30
    assert told(room, change_id) == wanted
    assert sum(each["sent"] for each in found["customers"].values()) == len(wanted)
    shown = room.json("change", "show", change_id)
    entries = Counter(each["customer"] for each in shown["modifications"] if each["type"] == "processed")
    assert entries == Counter(CODES)
    until(lambda: not [key for key in triggers(room) if change_id in key], 20, "the triggers to be gone")
    api = f"{room.status()['prefect']}/api"
    tree = call(f"{api}/flow_runs/filter", {"flow_runs": {"tags": {"all_": [f"change:{change_id}", "job:change"]}}})
    runs = Counter(tag for run in tree for tag in run["tags"] if tag.startswith("customer:"))
    assert runs == Counter(f"customer:{code}" for code in CODES)


def incidents(api: str) -> str:
    """What people are told at the moment, after a fresh look at the dead letters."""
    deployment = call(f"{api}/deployments/name/dead-letters/dead-letters")["id"]
    run = call(f"{api}/deployments/{deployment}/create_flow_run", {})["id"]
    until(lambda: call(f"{api}/flow_runs/{run}")["state"]["type"] == "COMPLETED", 60, "the dead letters to be read")
    latest = call(f"{api}/artifacts/latest/filter", {"artifacts": {"key": {"any_": ["incidents"]}}})
    return str(latest[0]["data"])


@pytest.mark.timeout(1800)
def test_a_role_that_can_not_be_assumed_stops_one_and_its_retry_finishes_it_alone(
    customers: Room, tmp_path: Path
) -> None:
    room, yew = customers, "yew"
    entry: dict[str, Any] = json.loads((EXAMPLES / "customers.json").read_text())["customers"]["acorn"]
    entry |= {"name": "Yew", "ses_role_arn": "arn:aws:iam::100000000099:role/postroom-ses"}
    entry |= {"sender": "changes@yew.example.com", "reply_to": "it@yew.example.com"}
    entry.pop("identity_center_role_arn")
    (tmp_path / "customers.json").write_text(json.dumps({"customers": {yew: entry}}))
    people = [{"address": f"{name}@yew.example.com", "topics": {"aws-approval": "in"}} for name in ("ann", "bob")]
    (tmp_path / "contacts.json").write_text(json.dumps({"contacts": {yew: people}}))
    assert room("customers", "load", str(tmp_path / "customers.json")).returncode == 0
    iam = boto3.client(
        "iam",
        endpoint_url=room.status()["aws"],
        region_name="eu-west-1",
        aws_access_key_id="100000000099",
        aws_secret_access_key="x",
    )
    iam.delete_role(RoleName="postroom-ses")
    document = {**CHANGE, "changeId": "one-role-short"}
    document["changeMetadata"] = {**CHANGE["changeMetadata"], "customerCodes": [*CODES[:29], yew]}
    (tmp_path / "change.json").write_text(json.dumps(document))

    found = room.json("change", "submit", str(tmp_path / "change.json"), "--wait", codes=(69,))["customers"]
    assert Counter(each["status"] for each in found.values()) == {"done": 29, "failed": 1}
    assert (found[yew]["status"], found[yew]["sent"]) == ("failed", 0)
    assert "role/postroom-ses can't be assumed" in found[yew]["reason"]
    others = told(room, "one-role-short")
    assert others == opted_in(CODES[:29])
    assert [key for key in triggers(room) if "one-role-short" in key] == ["customers/yew/one-role-short.json"]
    api = f"{room.status()['prefect']}/api"
    until(lambda: "postroom-changes-yew" in incidents(api), 60, "the alert")

    iam.create_role(RoleName="postroom-ses", AssumeRolePolicyDocument="{}")
    retry = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
    call(f"{api}/flow_runs/{found[yew]['run']}/set_state", {"state": retry, "force": True})

    def mended() -> bool:
        return bool(room.json("change", "show", "one-role-short")["customers"][yew]["status"] == "done")

    until(mended, 60, "the retry to finish it")
    assert told(room, "one-role-short") - others == Counter({("100000000099", each["address"]): 1 for each in people})
    assert [key for key in triggers(room) if "one-role-short" in key] == []
    until(lambda: "postroom-changes-yew" not in incidents(api), 60, "the alert to be over")
