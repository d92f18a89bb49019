"""Sending by the local SES: complete mail in the outbox, list management, suppression, quotas, events."""

import json
import os
import time
import urllib.request
from email import message_from_bytes
from email.message import EmailMessage
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.deployments.local_aws.conftest import Clients, Mortal, events_queue

PLACEHOLDER = "{{amazonSESUnsubscribeUrl}}"


@pytest.fixture
def ses(aws: Clients) -> Any:
    client = aws.client("sesv2")
    client.create_email_identity(EmailIdentity="example.com")
    return client


def simple(*to: str, text: str = "Hello", sender: str = "Desk <desk@example.com>", **more: Any) -> dict[str, Any]:
    body = {"Text": {"Data": text}, "Html": {"Data": f"<p>{text}</p>"}}
    content = {"Simple": {"Subject": {"Data": "Grüße"}, "Body": body, **more.pop("simple", {})}}
    return {"FromEmailAddress": sender, "Destination": {"ToAddresses": list(to)}, "Content": content, **more}


def test_a_simple_mail_lies_complete_in_the_outbox(ses: Any, aws: Clients) -> None:
    attached = {"FileName": "a.txt", "RawContent": b"inside", "ContentType": "text/plain"}
    headers = [{"Name": "In-Reply-To", "Value": "<1@example.com>"}]
    given = simple(
        "ann@example.com",
        simple={"Attachments": [attached], "Headers": headers},
        EmailTags=[{"Name": "delivery", "Value": "d1"}],
        ReplyToAddresses=["back@example.com"],
    )
    message_id = ses.send_email(**given)["MessageId"]
    [mail] = aws.outbox()
    assert mail["account"] == aws.account
    assert (mail["from"], mail["to"], mail["subject"]) == ("Desk <desk@example.com>", ["ann@example.com"], "Grüße")
    assert (mail["text"].strip(), mail["html"].strip()) == ("Hello", "<p>Hello</p>")
    assert (mail["attachments"], mail["tags"], mail["outcome"]) == (["a.txt"], {"delivery": "d1"}, "delivered")
    assert mail["headers"]["In-Reply-To"] == "<1@example.com>"
    assert mail["headers"]["Reply-To"] == "back@example.com"
    with urllib.request.urlopen(f"{aws.url}/_postroom/outbox/{message_id}") as answer:
        raw = message_from_bytes(answer.read())
    assert [part.get_payload(decode=True) for part in raw.walk() if part.get_filename()] == [b"inside"]


def test_a_raw_mail_goes_as_it_is_to_those_it_names(ses: Any, aws: Clients) -> None:
    raw = EmailMessage()
    raw["From"], raw["To"], raw["Bcc"], raw["Subject"] = "desk@example.com", "a@example.com", "b@example.com", "Hi"
    raw.set_content("text")
    raw.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="x.pdf")
    ses.send_email(Content={"Raw": {"Data": raw.as_bytes()}})
    [mail] = aws.outbox()
    assert (mail["to"], mail["attachments"], mail["text"].strip()) == (
        ["a@example.com", "b@example.com"],
        ["x.pdf"],
        "text",
    )
    assert "Bcc" not in mail["headers"]


@pytest.mark.parametrize(
    "raw",
    [
        b"From: desk@example.com\r\nTo: a@example.com\r\nSubject: =?utf-8?q?=?= \xff\xfe\r\n\r\n\xff body\r\n",
        b"From: desk@example.com\r\nTo: a@example.com\r\nContent-Type: text/plain; charset=nonsense\r\n\r\n\xe4\r\n",
        b"From: desk@example.com\r\nTo: a@example.com\r\nMessage-ID: <a@b>,<\r\nContent-Type: multipart/x\r\n\r\nx",
        b"From: desk@example.com\nTo: a@example.com\nX-A: [\nReferences: <<>\n\n",
    ],
)
def test_a_raw_mail_with_faults_is_sent_all_the_same(ses: Any, aws: Clients, raw: bytes) -> None:
    ses.send_email(Content={"Raw": {"Data": raw}})
    [mail] = aws.outbox()
    assert (mail["from"], mail["to"], mail["outcome"]) == ("desk@example.com", ["a@example.com"], "delivered")


def test_the_unsubscribe_link_is_put_in_for_one_recipient_only(ses: Any, aws: Clients) -> None:
    topics = [{"TopicName": "news", "DisplayName": "News", "DefaultSubscriptionStatus": "OPT_IN"}]
    ses.create_contact_list(ContactListName="people", Topics=topics)
    managed = {"ListManagementOptions": {"ContactListName": "people", "TopicName": "news"}}
    ses.send_email(**simple("ann@example.com", text=f"Bye {PLACEHOLDER}", **managed))
    ses.send_email(**simple("ann@example.com", "bob@example.com", text=f"Bye {PLACEHOLDER}", **managed))
    ses.send_email(**simple("ann@example.com", text="No link", **managed))
    one, two, none = aws.outbox()
    link = one["headers"]["List-Unsubscribe"].strip("<>")
    assert link.startswith("https://")
    assert link in one["text"]
    assert link in one["html"]
    assert one["headers"]["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert PLACEHOLDER in two["text"]
    assert "List-Unsubscribe" not in two["headers"]
    assert "List-Unsubscribe" not in none["headers"]
    assert len(ses.list_contacts(ContactListName="people")["Contacts"]) == 2, "SES enters unknown recipients"


def test_the_unsubscribed_and_the_suppressed_get_no_mail_and_the_outbox_says_so(ses: Any, aws: Clients) -> None:
    topics = [{"TopicName": "news", "DisplayName": "News", "DefaultSubscriptionStatus": "OPT_IN"}]
    ses.create_contact_list(ContactListName="people", Topics=topics)
    out = [{"TopicName": "news", "SubscriptionStatus": "OPT_OUT"}]
    ses.create_contact(ContactListName="people", EmailAddress="out@example.com", TopicPreferences=out)
    ses.create_contact(ContactListName="people", EmailAddress="gone@example.com", UnsubscribeAll=True)
    ses.put_suppressed_destination(EmailAddress="bad@example.com", Reason="BOUNCE")
    managed = {"ListManagementOptions": {"ContactListName": "people", "TopicName": "news"}}
    for name in ("out", "gone", "bad", "fine"):
        ses.send_email(**simple(f"{name}@example.com", **managed))
    outcomes = {mail["to"][0].split("@")[0]: mail["outcome"] for mail in aws.outbox()}
    assert outcomes == {"out": "unsubscribed", "gone": "unsubscribed", "bad": "suppressed", "fine": "delivered"}
    ses.put_account_suppression_attributes(SuppressedReasons=["COMPLAINT"])
    ses.send_email(**simple("bad@example.com"))
    assert aws.outbox()[-1]["outcome"] == "delivered"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (simple("a@example.com", sender="x@elsewhere.example"), "MessageRejected"),
        (simple("a@example.com", ListManagementOptions={"ContactListName": "none"}), "NotFoundException"),
        (simple("a@example.com", ConfigurationSetName="none"), "NotFoundException"),
        (simple("no address"), "BadRequestException"),
        (simple(), "BadRequestException"),
        (
            simple("a@example.com", simple={"Headers": [{"Name": "X-A", "Value": "a\r\nBcc: x@y.example"}]}),
            "BadRequestException",
        ),
        (simple(*(f"a{n}@example.com" for n in range(51))), "BadRequestException"),
    ],
)
def test_what_ses_refuses_is_refused_and_not_sent(ses: Any, aws: Clients, given: Any, code: str) -> None:
    with pytest.raises(ClientError) as refused:
        ses.send_email(**given)
    assert refused.value.response["Error"]["Code"] == code
    assert aws.outbox() == []


def test_a_subdomain_of_a_verified_domain_may_send(ses: Any, aws: Clients) -> None:
    ses.send_email(**simple("a@example.com", sender="x@mail.example.com"))
    ses.delete_email_identity(EmailIdentity="example.com")
    with pytest.raises(ses.exceptions.MessageRejected, match="not verified"):
        ses.send_email(**simple("a@example.com", sender="x@mail.example.com"))


def test_the_rate_is_really_kept(ses: Any, aws: Clients) -> None:
    aws.allow(MaxSendRate=5)
    assert ses.get_account()["SendQuota"]["MaxSendRate"] == 5
    sent, began = 0, time.monotonic()
    refusals: list[dict[str, Any]] = []
    while time.monotonic() - began < 2:
        try:
            ses.send_email(**simple("a@example.com"))
            sent += 1
        except ClientError as error:
            refusals.append(error.response)
    allowed = 5 + (time.monotonic() - began) * 5  # the bucket was full at first
    assert allowed * 0.7 < sent <= allowed + 1
    assert {(r["Error"]["Code"], r["Error"]["Message"], r["ResponseMetadata"]["HTTPStatusCode"]) for r in refusals} == {
        ("TooManyRequestsException", "Maximum sending rate exceeded.", 429)
    }
    assert len(aws.outbox()) == sent


def test_the_daily_quota_ends_sending(ses: Any, aws: Clients) -> None:
    aws.allow(Max24HourSend=3, MaxSendRate=100)
    ses.send_email(**simple("a@example.com", "b@example.com"))
    ses.send_email(**simple("success@simulator.amazonses.com"))  # the simulator does not weigh on the quota
    with pytest.raises(ses.exceptions.LimitExceededException, match="Daily message quota exceeded"):
        ses.send_email(**simple("c@example.com", "d@example.com"))
    assert ses.get_account()["SendQuota"]["SentLast24Hours"] == 2
    ses.send_email(**simple("c@example.com"))


def test_a_paused_account_sends_nothing(ses: Any, aws: Clients) -> None:
    ses.put_account_sending_attributes(SendingEnabled=False)
    with pytest.raises(ses.exceptions.SendingPausedException):
        ses.send_email(**simple("a@example.com"))
    assert aws.outbox() == []


def test_events_come_by_sns_in_the_shape_of_ses(ses: Any, aws: Clients) -> None:
    queue, sqs = events_queue(aws, ses), aws.client("sqs")
    ses.put_suppressed_destination(EmailAddress="cross@example.com", Reason="COMPLAINT")

    def told(address: str) -> list[dict[str, Any]]:
        tags = [{"Name": "delivery", "Value": address.replace("@", "_at_").replace("+", "_")}]
        ses.send_email(**simple(address, ConfigurationSetName="told", EmailTags=tags))
        events = []
        while got := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in got:
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                envelope = json.loads(message["Body"])
                assert envelope["Type"] == "Notification"
                events.append(json.loads(envelope["Message"]))
        assert all(event["mail"]["tags"]["delivery"] == [tags[0]["Value"]] for event in events)
        assert all(event["mail"]["destination"] == [address] for event in events)
        assert all(event["mail"]["sendingAccountId"] == aws.account for event in events)
        return events

    send, delivery = told("ann@example.com")
    assert (send["eventType"], send["send"]) == ("Send", {})
    assert (delivery["eventType"], delivery["delivery"]["recipients"]) == ("Delivery", ["ann@example.com"])
    _, bounce = told("bounce+1@simulator.amazonses.com")
    assert (bounce["eventType"], bounce["bounce"]["bounceType"]) == ("Bounce", "Permanent")
    assert bounce["bounce"]["bouncedRecipients"][0]["emailAddress"] == "bounce+1@simulator.amazonses.com"
    assert [event["eventType"] for event in told("complaint@simulator.amazonses.com")] == [
        "Send",
        "Delivery",
        "Complaint",
    ]
    _, listed = told("suppressionlist@simulator.amazonses.com")
    assert (listed["eventType"], listed["bounce"]["bounceSubType"]) == ("Bounce", "Suppressed")
    _, cross = told("cross@example.com")
    assert (cross["eventType"], cross["complaint"]["complaintSubType"]) == ("Complaint", "OnAccountSuppressionList")


def test_without_a_configuration_set_the_house_that_runs_here_is_told(mortal: Mortal) -> None:
    sqs, ses = mortal.client("sqs", "000000000000"), mortal.client("sesv2")
    queue = sqs.create_queue(QueueName=f"{os.environ.get('POSTROOM_PREFIX', 'postroom')}-ses-events")["QueueUrl"]
    ses.create_email_identity(EmailIdentity="example.com")
    ses.send_email(**simple("a@example.com", EmailTags=[{"Name": "delivery", "Value": "d1"}]))
    got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    events = [json.loads(json.loads(message["Body"])["Message"]) for message in got]
    assert [event["eventType"] for event in events] == ["Send", "Delivery"]
    assert {event["mail"]["tags"]["delivery"][0] for event in events} == {"d1"}


def test_the_outbox_of_all_accounts_holds_each_ones_mail(ses: Any, aws: Clients) -> None:
    ses.send_email(**simple("a@example.com"))
    with urllib.request.urlopen(f"{aws.url}/_postroom/outbox") as answer:
        everything = json.load(answer)
    assert [mail for mail in everything if mail["account"] == aws.account] == aws.outbox()
