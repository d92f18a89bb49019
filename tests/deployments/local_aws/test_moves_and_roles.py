"""Dead letters go back; a role must exist to be assumed; aiobotocore is served as boto3 is."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from postroom.aws.resource import wait_until
from tests.deployments.local_aws.conftest import Clients


def queues(aws: Clients) -> tuple[Any, str, str, str]:
    """A client, the URLs of a queue and its dead letters, the dead letters' ARN."""
    sqs = aws.client("sqs")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = f"arn:aws:sqs:eu-west-1:{aws.account}:dead"
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    work = sqs.create_queue(QueueName="work", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
    return sqs, work, dead, arn


def waiting(sqs: Any, url: str) -> int:
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(got["Attributes"]["ApproximateNumberOfMessages"])


def test_dead_letters_return_to_the_queue_they_came_from_as_new(aws: Clients) -> None:
    sqs, work, dead, arn = queues(aws)
    for number in range(12):
        sqs.send_message(QueueUrl=work, MessageBody=f"m{number}")
    for _ in range(4):
        sqs.receive_message(QueueUrl=work, MaxNumberOfMessages=10, VisibilityTimeout=0)
    assert (waiting(sqs, work), waiting(sqs, dead)) == (0, 12)
    sqs.start_message_move_task(SourceArn=arn)
    [task] = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 12)
    assert (waiting(sqs, work), waiting(sqs, dead)) == (12, 0)
    [back] = sqs.receive_message(QueueUrl=work, AttributeNames=["All"])["Messages"]
    assert back["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in back["Attributes"]


def test_a_letter_put_among_the_dead_by_hand_needs_a_destination(aws: Clients) -> None:
    sqs, work, dead, arn = queues(aws)
    sqs.send_message(QueueUrl=dead, MessageBody="by hand")
    sqs.start_message_move_task(SourceArn=arn)
    [task] = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert waiting(sqs, dead) == 1
    sqs.start_message_move_task(SourceArn=arn, DestinationArn=arn.replace("dead", "work"))
    assert (waiting(sqs, work), waiting(sqs, dead)) == (1, 0)


def test_a_paced_move_can_be_cancelled_midway(aws: Clients) -> None:
    sqs, _, dead, arn = queues(aws)
    for number in range(5):
        sqs.send_message(QueueUrl=dead, MessageBody=f"m{number}")
    handle = sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=arn.replace("dead", "work"), MaxNumberOfMessagesPerSecond=2
    )["TaskHandle"]
    sqs.cancel_message_move_task(TaskHandle=handle)

    def status() -> str:
        return str(sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"])

    wait_until(lambda: status() == "CANCELLED", "the task to be cancelled", seconds=10)
    assert 1 <= waiting(sqs, dead) <= 4


def test_only_a_queue_of_dead_letters_can_be_moved(aws: Clients) -> None:
    sqs, _, _, arn = queues(aws)
    with pytest.raises(ClientError, match="Dead Letter Queue"):
        sqs.start_message_move_task(SourceArn=arn.replace("dead", "work"))


def test_a_role_that_does_not_exist_can_not_be_assumed(aws: Clients) -> None:
    arn = f"arn:aws:iam::{aws.account}:role/mailer"
    sts = aws.client("sts", "000000000000")
    with pytest.raises(ClientError) as refused:
        sts.assume_role(RoleArn=arn, RoleSessionName="test")
    assert refused.value.response["Error"]["Code"] == "AccessDenied"
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    aws.client("iam").create_role(RoleName="mailer", AssumeRolePolicyDocument=trust)
    keys = sts.assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
    inside = aws.client(
        "sesv2",
        keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    inside.create_contact_list(ContactListName="people")
    assert len(aws.client("sesv2").list_contact_lists()["ContactLists"]) == 1


async def test_aiobotocore_is_served_as_boto3_is(aws: Clients) -> None:
    from aiobotocore.session import get_session

    keys = {"aws_access_key_id": aws.account, "aws_secret_access_key": "local"}
    place = {"endpoint_url": aws.url, "region_name": "eu-west-1", **keys}
    async with get_session().create_client("sesv2", **place) as ses:
        await ses.create_email_identity(EmailIdentity="example.com")
        content = {"Simple": {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}}}
        await ses.send_email(
            FromEmailAddress="a@example.com", Destination={"ToAddresses": ["b@example.com"]}, Content=content
        )
        with pytest.raises(ClientError, match="NotFoundException"):
            await ses.get_contact_list(ContactListName="none")
    async with get_session().create_client("sqs", **place) as sqs:
        url = (await sqs.create_queue(QueueName="work"))["QueueUrl"]
        await sqs.send_message(QueueUrl=url, MessageBody="hello")
        [got] = (await sqs.receive_message(QueueUrl=url))["Messages"]
        assert got["Body"] == "hello"
    assert len(aws.outbox()) == 1
