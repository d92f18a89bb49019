"""`postroom customers` and `postroom change` as a person types them, without a worker behind them."""

import json
import random
import uuid
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from typer.testing import CliRunner

from cli.change.telling import conclude
from cli.main import app
from postroom.aws.names import Names
from postroom.aws.queues import find_queue
from postroom.changes.store import open_store, trigger_key
from postroom.delivery import aws
from postroom.errors import BadInput, TimedOut, Unparsable
from tests.postroom.changes.samples import written

EXAMPLES = Path(__file__).parents[2] / "examples"


class Desk:
    """The command, and a file of two customers that no other test knows."""

    def __init__(self, folder: Path) -> None:
        aws.forget()
        mark = uuid.uuid4().hex[:8]
        self.codes = [f"acorn-{mark}", f"birch-{mark}"]
        self.file = folder / "customers.json"
        self.entries: dict[str, Any] = {
            code: {
                "name": code.partition("-")[0].capitalize(),
                "region": "eu-west-1",
                "ses_role_arn": f"arn:aws:iam::{random.SystemRandom().randrange(10**12):012}:role/postroom-ses",
                "sender": "changes@example.com",
                "timezone": "Europe/Berlin",
                "contact_list": "changes",
            }
            for code in self.codes
        }
        self.folder = folder
        self.write()

    def write(self) -> None:
        self.file.write_text(json.dumps({"customers": self.entries}))

    def __call__(self, *words: str, stdin: str | None = None, exit_code: int = 0) -> Any:
        """What the command prints, as JSON."""
        done = CliRunner().invoke(app, [*words, "--json"], input=stdin, catch_exceptions=False)
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)


@pytest.fixture
def desk(provisioned: Names, prefect_server: str, tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_customers_are_loaded_once_and_differences_shown(desk: Desk, provisioned: Names) -> None:
    first, second = desk.codes
    planned = desk("customers", "load", str(desk.file), "--dry-run")
    assert set(planned["differences"]) == {first, second}
    assert find_queue(provisioned.changes_queue(first)) is None
    loaded = desk("customers", "load", str(desk.file))
    assert set(loaded["differences"]) == {first, second}
    assert find_queue(provisioned.changes_queue(first))
    assert find_queue(provisioned.dead_letters(provisioned.changes_queue(second)))

    again = desk("customers", "load", str(desk.file))
    assert (again["differences"], again["steps"]) == ({}, [])

    desk.entries[first] |= {"timezone": "Asia/Tokyo", "reply_to": "it@example.com"}
    desk.write()
    changed = desk("customers", "load", str(desk.file))["differences"]
    assert {each["field"]: each["after"] for each in changed[first]} == {
        "timezone": "Asia/Tokyo",
        "reply_to": "it@example.com",
    }
    del desk.entries[first]["reply_to"]
    desk.write()
    assert [each["field"] for each in desk("customers", "load", str(desk.file))["differences"][first]] == ["reply_to"]
    assert desk("customers", "load", str(desk.file))["differences"] == {}
    listed = {each["code"]: each for each in desk("customers", "list")}
    assert listed[first]["timezone"] == "Asia/Tokyo"
    assert "reply_to" not in listed[first]


def test_a_check_names_what_is_missing(desk: Desk) -> None:
    desk("customers", "load", str(desk.file))
    assert all(each["ok"] for each in desk("customers", "check", desk.codes[0]))
    account = desk.entries[desk.codes[0]]["ses_role_arn"].split(":")[4]
    iam = boto3.client("iam", aws_access_key_id=account, aws_secret_access_key="local", region_name="eu-west-1")
    iam.delete_role(RoleName="postroom-ses")
    found = desk("customers", "check", desk.codes[0], exit_code=69)
    assert [(each["check"], each["ok"]) for each in found] == [("role", False)]
    assert "can't be assumed" in found[0]["detail"]
    done = CliRunner().invoke(app, ["customers", "check", "nobody"])
    assert isinstance(done.exception, BadInput)


def test_a_check_says_whose_ses_tells_nothing_of_its_mails_and_tries_every_role(desk: Desk) -> None:
    acorn = desk.entries[desk.codes[0]]
    account = acorn["ses_role_arn"].split(":")[4]
    acorn |= {
        "configuration_set": "told",
        "identity_center_role_arn": f"arn:aws:iam::{account}:role/identity-center",
    }
    desk.write()
    desk("customers", "load", str(desk.file))
    keys = {"aws_access_key_id": account, "aws_secret_access_key": "local", "region_name": "eu-west-1"}
    ses = boto3.client("sesv2", **keys)
    ses.create_configuration_set(ConfigurationSetName="told")
    destination = {
        "Enabled": True,
        "MatchingEventTypes": ["SEND", "DELIVERY", "REJECT"],
        "SnsDestination": {"TopicArn": f"arn:aws:sns:eu-west-1:{account}:ses"},
    }
    ses.create_configuration_set_event_destination(
        ConfigurationSetName="told", EventDestinationName="postroom", EventDestination=destination
    )
    boto3.client("iam", **keys).delete_role(RoleName="identity-center")
    found = {each["check"]: each for each in desk("customers", "check", desk.codes[0], exit_code=69)}
    assert [name for name, each in found.items() if not each["ok"]] == ["events", "identity center role"]
    assert found["events"]["detail"].endswith("configuration set told publishes no BOUNCE, COMPLAINT")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"ses_role_arn": "arn:aws:s3:::bucket"}, "ses_role_arn"),
        ({"sender": "nobody"}, "is no mail address"),
        ({"sender": "a@example.com\r\nBcc: b@example.com"}, "sender"),
        ({"sender": "Acme, Inc <a@example.com>"}, "put in quotes"),
        ({"recipients_allow": ["@example.com"]}, "wanted is an address or *@domain"),
        ({"recipients_allow": ["*"]}, "wanted is an address or *@domain"),
        ({"recipients_allow": ["*@*.example.com"]}, "wanted is an address or *@domain"),
        ({"max_send_rate": 0}, "max_send_rate"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_configuration_is_named_and_nothing_done(desk: Desk, wrong: dict[str, Any], said: str) -> None:
    desk.entries[desk.codes[0]] |= wrong
    desk.write()
    done = CliRunner().invoke(app, ["customers", "load", str(desk.file)])
    assert isinstance(done.exception, BadInput)
    assert said in str(done.exception)
    assert desk.codes[0] in str(done.exception)


@pytest.mark.parametrize("code", ["a-dlq", "UPPER", "-a", "x" * 40])
def test_a_code_that_can_not_name_a_queue_is_refused(desk: Desk, code: str) -> None:
    desk.file.write_text(json.dumps({"customers": {code: desk.entries[desk.codes[0]]}}))
    done = CliRunner().invoke(app, ["customers", "load", str(desk.file)])
    assert isinstance(done.exception, BadInput)


def test_a_change_goes_from_draft_to_its_end(desk: Desk) -> None:
    desk("customers", "load", str(desk.file))
    draft = desk("change", "draft", "-", "--by", "ann", stdin=json.dumps(written(*desk.codes)))
    assert (draft["status"], draft["customers"]) == ("draft", {})
    change_id = draft["changeId"]
    submitted = desk("change", "submit", change_id, "--by", "ann")
    assert (submitted["changeId"], submitted["version"], submitted["status"]) == (change_id, 1, "submitted")
    assert {code: each["status"] for code, each in submitted["customers"].items()} == dict.fromkeys(
        desk.codes, "waiting"
    )
    assert open_store().shelf.tag(trigger_key(desk.codes[0], change_id))
    assert desk("change", "approve", change_id)["status"] == "approved"

    shown = desk("change", "show", change_id)
    assert shown["changeMetadata"]["customerNames"] == ["Acorn", "Birch"]
    shown["changeMetadata"]["title"] = "Another"
    edited = desk("change", "update", "-", "--by", "bob", stdin=json.dumps(shown))
    assert (edited["version"], edited["status"]) == (2, "submitted")
    assert [each["field"] for each in desk("change", "diff", change_id)] == ["changeMetadata.title"]
    assert [each["version"] for each in desk("change", "versions", change_id)] == [1, 2]
    letter = desk("change", "preview", change_id, "--customer", desk.codes[0])
    assert "Another" in letter["text"]
    assert desk("change", "cancel", change_id)["status"] == "cancelled"
    done = CliRunner().invoke(app, ["change", "complete", change_id])
    assert isinstance(done.exception, BadInput)


def test_an_update_with_the_file_that_was_submitted_changes_nothing(desk: Desk) -> None:
    desk("customers", "load", str(desk.file))
    document = written(*desk.codes, changeId=f"same-{desk.codes[0]}")
    desk("change", "submit", "-", stdin=json.dumps(document))
    assert desk("change", "update", "-", stdin=json.dumps(document))["version"] == 1
    document["changeMetadata"]["customerCodes"] = desk.codes[:1]
    assert desk("change", "update", "-", stdin=json.dumps(document))["version"] == 2
    assert desk("change", "show", document["changeId"])["changeMetadata"]["customerNames"] == ["Acorn"]


def test_the_id_of_a_submitted_change_writes_the_triggers_it_lacks(desk: Desk) -> None:
    desk("customers", "load", str(desk.file))
    change_id = desk("change", "submit", "-", stdin=json.dumps(written(*desk.codes)))["changeId"]
    shelf, trigger = open_store().shelf, trigger_key(desk.codes[0], change_id)
    shelf.remove(trigger, only=str(shelf.tag(trigger)))
    assert desk("change", "submit", change_id)["version"] == 1
    assert shelf.tag(trigger)
    desk("change", "approve", change_id)
    done = CliRunner().invoke(app, ["change", "submit", change_id])
    assert isinstance(done.exception, BadInput)


def test_who_waits_in_vain_is_still_told_where_it_stands(desk: Desk) -> None:
    desk("customers", "load", str(desk.file))
    words = ["change", "submit", "-", "--wait", "--wait-seconds", "0.5", "--json"]
    done = CliRunner().invoke(app, words, input=json.dumps(written(*desk.codes)))
    assert isinstance(done.exception, TimedOut)
    assert {each["status"] for each in json.loads(done.stdout)["customers"].values()} == {"waiting"}
    draft = desk("change", "draft", "-", "--wait", stdin=json.dumps(written(*desk.codes)))
    assert draft["status"] == "draft"


def test_the_worst_failure_of_a_customer_gives_the_exit_code() -> None:
    def code(*categories: str) -> int:
        customers = {c: {"status": "failed", "category": c} for c in categories} | {"acorn": {"status": "done"}}
        with pytest.raises(typer.Exit) as caught:
            conclude({"changeId": "c", "customers": customers}, 1)
        return caught.value.exit_code

    assert (code("auth"), code("validation"), code("validation", "auth"), code("programming")) == (69, 65, 69, 70)


def test_a_dry_run_writes_nothing(desk: Desk) -> None:
    desk("customers", "load", str(desk.file))
    planned = desk("change", "submit", "-", "--dry-run", stdin=json.dumps(written(*desk.codes)))
    assert planned["status"] == "submitted"
    assert open_store().shelf.find(f"archive/{planned['changeId']}.json") is None


def test_an_unknown_customer_and_no_json_are_bad_input(desk: Desk) -> None:
    done = CliRunner().invoke(app, ["change", "submit", "-"], input=json.dumps(written("nobody-at-all")))
    assert isinstance(done.exception, BadInput)
    assert "unknown-customer" in str(done.exception)
    done = CliRunner().invoke(app, ["change", "submit", "-"], input="{")
    assert isinstance(done.exception, Unparsable)


def test_the_examples_are_right() -> None:
    from deployments.local_accounts import read_contacts
    from postroom.changes.customers import read_customers

    customers = read_customers((EXAMPLES / "customers.json").read_bytes())
    contacts = read_contacts((EXAMPLES / "contacts.json").read_bytes())
    change = json.loads((EXAMPLES / "change.json").read_bytes())
    assert len(customers) == 30
    assert set(contacts) <= set(customers)
    assert set(change["changeMetadata"]["customerCodes"]) == set(customers)
    assert len({each.account for each in customers.values()}) < len(customers)
