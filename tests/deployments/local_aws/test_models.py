"""Every operation our layer adds, held against botocore's own model of AWS: shapes of answers, codes of errors.

One story calls them all; a watcher compares each raw answer with the model. An operation that is
added to the layer and not to the story fails the last test here.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.model import OperationModel, Shape

from deployments.local_aws import moves
from tests.deployments.local_aws.conftest import Clients

KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "double": (int, float),
    "timestamp": (int, float),
}


def wrong(value: Any, shape: Shape, where: str) -> list[str]:
    """What in a raw JSON value is not as its shape says."""
    if shape.type_name == "structure":
        if not isinstance(value, dict):
            return [f"{where} is no object"]
        names = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        unknown = [f"{where}.{name} is unknown to AWS" for name in value if name not in names]
        missing = [f"{where}.{name} is missing" for name in shape.required_members if name not in value]
        inside = [wrong(value[name], names[name], f"{where}.{name}") for name in value if name in names]
        return unknown + missing + [each for found in inside for each in found]
    if shape.type_name == "list":
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [each for n, item in enumerate(value) for each in wrong(item, shape.member, f"{where}[{n}]")]
    if shape.type_name == "map":
        return [each for name, item in value.items() for each in wrong(item, shape.value, f"{where}.{name}")]
    if not isinstance(value, KINDS[shape.type_name]):
        return [f"{where} is {value!r}, not a {shape.type_name}"]
    allowed = getattr(shape, "enum", [])  # only strings have one
    if allowed and value not in allowed:
        return [f"{where} is {value!r}, not one of {allowed}"]
    return []


class Watcher:
    """Sees every raw answer of a client."""

    def __init__(self) -> None:
        self.answered: set[str] = set()
        self.refused: set[str] = set()
        self.problems: list[str] = []

    def watch(self, client: Any) -> Any:
        client.meta.events.register("after-call", self.see)
        return client

    def see(self, http_response: Any, model: OperationModel, **_: Any) -> None:
        body = json.loads(http_response.content or b"{}")
        if http_response.status_code < 300:
            self.answered.add(model.name)
            if model.output_shape is not None:
                self.problems += wrong(body, model.output_shape, model.name)
            return
        self.refused.add(model.name)
        code = (body.get("__type") or http_response.headers["x-amzn-errortype"]).split("#")[-1]
        shapes = {shape.name: shape for shape in model.error_shapes}
        if code not in shapes:
            self.problems.append(f"{model.name} has no error {code}")
        else:
            status = shapes[code].metadata.get("error", {}).get("httpStatusCode", http_response.status_code)
            if status != http_response.status_code:
                self.problems.append(f"{model.name}: {code} comes with {http_response.status_code}, not {status}")


def refused(call: Callable[..., Any], **given: Any) -> None:
    with pytest.raises(ClientError):
        call(**given)


def sesv2_story(ses: Any) -> None:
    topics = [{"TopicName": "t", "DisplayName": "T", "Description": "d", "DefaultSubscriptionStatus": "OPT_IN"}]
    people, ann = {"ContactListName": "people"}, {"ContactListName": "people", "EmailAddress": "ann@example.com"}
    refused(ses.update_contact_list, **people)
    refused(ses.delete_contact_list, **people)
    refused(ses.create_contact, **ann)
    ses.create_contact_list(**people, Topics=topics, Description="all", Tags=[{"Key": "a", "Value": "b"}])
    refused(ses.create_contact_list, **people)
    ses.get_contact_list(**people)
    refused(ses.get_contact_list, ContactListName="none")
    ses.update_contact_list(**people, Topics=topics, Description="everyone")
    ses.list_contact_lists()
    said = [{"TopicName": "t", "SubscriptionStatus": "OPT_OUT"}]
    ses.create_contact(**ann, TopicPreferences=said, AttributesData="{}")
    refused(ses.create_contact, **ann)
    ses.get_contact(**ann)
    ses.update_contact(**ann, UnsubscribeAll=False)
    refused(ses.update_contact, **people, EmailAddress="x@example.com")
    ses.list_contacts(**people, PageSize=1)
    refused(ses.list_contacts, ContactListName="none")
    ses.delete_contact(**ann)
    refused(ses.get_contact, **ann)
    refused(ses.delete_contact, **ann)

    ses.get_account()
    ses.put_account_suppression_attributes(SuppressedReasons=["BOUNCE"])
    refused(ses.put_account_suppression_attributes, SuppressedReasons=["NO"])
    ses.put_account_sending_attributes(SendingEnabled=True)
    ses.create_email_identity(EmailIdentity="example.com")
    refused(ses.create_email_identity, EmailIdentity="example.com")
    ses.get_email_identity(EmailIdentity="example.com")
    refused(ses.get_email_identity, EmailIdentity="none.example")
    ses.list_email_identities()

    bad = {"EmailAddress": "bad@example.com"}
    refused(ses.get_suppressed_destination, **bad)
    refused(ses.delete_suppressed_destination, **bad)
    refused(ses.put_suppressed_destination, **bad, Reason="NO")
    ses.put_suppressed_destination(**bad, Reason="BOUNCE")
    ses.get_suppressed_destination(**bad)
    ses.list_suppressed_destinations(PageSize=5)
    refused(ses.list_suppressed_destinations, PageSize=0)
    ses.delete_suppressed_destination(**bad)

    settings = {"ConfigurationSetName": "told"}
    topic = {"TopicArn": "arn:aws:sns:eu-west-1:000000000000:x"}
    to = {"Enabled": True, "MatchingEventTypes": ["SEND"], "SnsDestination": topic}
    named = {**settings, "EventDestinationName": "sns"}
    refused(ses.create_configuration_set_event_destination, **named, EventDestination=to)
    ses.create_configuration_set(**settings)
    refused(ses.create_configuration_set, **settings)
    ses.get_configuration_set(**settings)
    ses.create_configuration_set_event_destination(**named, EventDestination=to)
    ses.get_configuration_set_event_destinations(**settings)
    ses.delete_configuration_set(**settings)
    refused(ses.get_configuration_set, **settings)
    refused(ses.get_configuration_set_event_destinations, **settings)
    refused(ses.delete_configuration_set, **settings)

    content = {"Simple": {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}}}
    mail = {"FromEmailAddress": "a@example.com", "Destination": {"ToAddresses": ["b@example.com"]}, "Content": content}
    ses.send_email(**mail)
    refused(ses.send_email, **mail, ConfigurationSetName="none")
    ses.delete_email_identity(EmailIdentity="example.com")
    refused(ses.delete_email_identity, EmailIdentity="example.com")
    refused(ses.send_email, **mail)
    ses.delete_contact_list(**people)


def sqs_story(sqs: Any, account: str) -> None:
    dead = f"arn:aws:sqs:eu-west-1:{account}:dead"
    refused(sqs.start_message_move_task, SourceArn=dead)
    refused(sqs.list_message_move_tasks, SourceArn=dead)
    refused(sqs.cancel_message_move_task, TaskHandle="none")
    dead_url = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": "1"})
    sqs.create_queue(QueueName="work", Attributes={"RedrivePolicy": redrive})
    refused(sqs.list_dead_letter_source_queues, QueueUrl=dead_url + "-none")
    assert len(sqs.list_dead_letter_source_queues(QueueUrl=dead_url)["queueUrls"]) == 1
    for _ in range(3):
        sqs.send_message(QueueUrl=dead_url, MessageBody="x")
    work = f"arn:aws:sqs:eu-west-1:{account}:work"
    given = {"SourceArn": dead, "DestinationArn": work, "MaxNumberOfMessagesPerSecond": 1}
    handle = sqs.start_message_move_task(**given)["TaskHandle"]
    refused(sqs.start_message_move_task, **given)
    sqs.list_message_move_tasks(SourceArn=dead)
    sqs.cancel_message_move_task(TaskHandle=handle)


def test_every_answer_and_refusal_is_as_aws_models_it(aws: Clients) -> None:
    watcher = Watcher()
    sesv2_story(watcher.watch(aws.client("sesv2")))
    sqs_story(watcher.watch(aws.client("sqs")), aws.account)
    assert watcher.problems == []
    missing = {*operations_of_ses(), *moves.OPERATIONS} - watcher.answered
    assert not missing, f"not in the story: {missing}"
    silent = {"ListContactLists", "GetAccount", "PutAccountSendingAttributes", "ListEmailIdentities"}
    assert {*operations_of_ses(), *moves.OPERATIONS} - watcher.refused == silent, "each other has something to refuse"


def operations_of_ses() -> set[str]:
    """As the layer itself lists them; the methods are only named here, never called."""
    from deployments.local_aws.ses import account, lists, send

    nothing: Any = None
    return {
        *lists.Lists(nothing).operations(),
        *account.Account(nothing).operations(),
        *send.Sending(nothing, nothing, nothing, "").operations(),
    }


def test_the_watcher_sees_what_is_wrong(aws: Clients) -> None:
    shape = aws.client("sesv2").meta.service_model.operation_model("GetAccount").output_shape
    assert wrong({"SendingEnabled": "yes", "Made": 1, "SendQuota": {"MaxSendRate": 1.5}}, shape, "x") == [
        "x.Made is unknown to AWS",
        "x.SendingEnabled is 'yes', not a boolean",
    ]
