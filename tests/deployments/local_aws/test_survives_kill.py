"""What the local AWS has answered, it still knows after kill -9."""

import json
import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from postroom.aws.resource import wait_until
from tests.deployments.local_aws.conftest import Mortal, events_queue

TABLE = {
    "TableName": "book",
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "key", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "key", "AttributeType": "S"}],
}


def notified_bucket(aws: Mortal) -> tuple[str, str]:
    """A bucket that tells a queue of every new object: its name, the queue's URL."""
    name = f"letters-{aws.account}"
    sqs, s3 = aws.client("sqs"), aws.client("s3")
    url = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    allowed = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "s3.amazonaws.com"}, "Action": "sqs:*", "Resource": arn}
        ],
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(allowed)})
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    wish = {"QueueConfigurations": [{"Id": "new", "QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    s3.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration=wish)
    drain(sqs, url)  # the test event
    return name, str(url)


def drain(sqs: Any, url: str) -> list[str]:
    """All bodies that wait, taken."""
    bodies = []
    while got := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages"):
        bodies += [message["Body"] for message in got]
        for message in got:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


def items(dynamodb: Any) -> dict[str, str]:
    pages = dynamodb.get_paginator("scan").paginate(TableName="book")
    return {item["key"]["S"]: item["v"]["S"] for page in pages for item in page["Items"]}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_that_was_answered_is_there_and_nothing_that_was_not_asked_for(mortal: Mortal, seed: int) -> None:
    mortal.client("dynamodb").create_table(**TABLE)
    bucket, told = notified_bucket(mortal)
    queue = mortal.client("sqs").create_queue(QueueName="work")["QueueUrl"]
    asked: dict[str, set[str]] = {"item": set(), "message": set(), "object": set()}
    answered: dict[str, set[str]] = {"item": set(), "message": set(), "object": set()}
    dead = threading.Event()
    clients = {service: mortal.client(service) for service in ("dynamodb", "sqs", "s3")}

    def stream(kind: str, number: int) -> None:
        chance = random.Random(f"{seed}-{kind}-{number}")
        while not dead.is_set():
            name = uuid.UUID(int=chance.getrandbits(128)).hex
            asked[kind].add(name)
            try:
                if kind == "item":
                    item = {"key": {"S": name}, "v": {"S": name * chance.randint(1, 50)}}
                    clients["dynamodb"].put_item(TableName="book", Item=item)
                elif kind == "message":
                    clients["sqs"].send_message(QueueUrl=queue, MessageBody=name)
                else:
                    body = name.encode() * chance.randint(1, 5000)
                    clients["s3"].put_object(Bucket=bucket, Key=name, Body=body, ContentType="message/rfc822")
            except Exception:
                return  # it died before it answered
            answered[kind].add(name)

    with ThreadPoolExecutor(6) as pool:
        streams = [pool.submit(stream, kind, number) for kind in asked for number in (1, 2)]
        moment = random.Random(seed).randint(20, 120)
        wait_until(lambda: min(map(len, answered.values())) > moment, "the streams to get going", every=0.001)
        mortal.kill()
        dead.set()
        for each in streams:
            each.result(timeout=30)
    mortal.start()

    sqs, s3 = mortal.client("sqs"), mortal.client("s3")
    kept_items = items(mortal.client("dynamodb"))
    assert answered["item"] <= set(kept_items) <= asked["item"]
    assert all(value == key * (len(value) // 32) for key, value in kept_items.items())
    messages = drain(sqs, queue)
    assert len(messages) == len(set(messages))
    assert answered["message"] <= set(messages) <= asked["message"]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", [])}
    assert answered["object"] <= set(keys) <= asked["object"]
    for key in random.Random(seed).sample(sorted(keys), min(20, len(keys))):
        got = s3.get_object(Bucket=bucket, Key=key)
        body = got["Body"].read()
        assert (len(body), got["ContentType"]) == (keys[key], "message/rfc822")
        assert body == key.encode() * (len(body) // 32)
    notified = [json.loads(body)["Records"][0]["s3"]["object"]["key"] for body in drain(sqs, told)]
    assert sorted(notified) == sorted(keys), "an object and its notification are kept together or not at all"


def test_a_mail_that_was_accepted_is_in_the_outbox_with_its_events(mortal: Mortal) -> None:
    ses = mortal.client("sesv2")
    queue = events_queue(mortal, ses)
    ses.create_email_identity(EmailIdentity="example.com")
    ses.create_contact_list(ContactListName="people")
    ses.put_suppressed_destination(EmailAddress="bad@example.com", Reason="BOUNCE")
    mortal.allow(MaxSendRate=100_000)
    asked: set[str] = set()
    answered: set[str] = set()

    def stream(number: int) -> None:
        for count in range(100_000):
            subject = f"{number}-{count}"
            asked.add(subject)
            content = {"Simple": {"Subject": {"Data": subject}, "Body": {"Text": {"Data": "t"}}}}
            try:
                ses.send_email(
                    FromEmailAddress="desk@example.com",
                    Destination={"ToAddresses": ["ann@example.com"]},
                    Content=content,
                    ConfigurationSetName="told",
                )
            except Exception:
                return  # it died before it answered
            answered.add(subject)

    with ThreadPoolExecutor(3) as pool:
        streams = [pool.submit(stream, number) for number in range(3)]
        wait_until(lambda: len(answered) > 60, "the streams to get going", every=0.001)
        mortal.kill()
        for each in streams:
            each.result(timeout=30)
    mortal.start()

    subjects = [mail["subject"] for mail in mortal.outbox()]
    assert len(subjects) == len(set(subjects))
    assert answered <= set(subjects) <= asked
    events = [json.loads(json.loads(body)["Message"]) for body in drain(mortal.client("sqs"), queue)]
    delivered = [event["mail"]["commonHeaders"]["subject"] for event in events if event["eventType"] == "Delivery"]
    assert sorted(delivered) == sorted(subjects)
    account = ses.get_account()["SendQuota"]
    assert (account["MaxSendRate"], account["SentLast24Hours"]) == (100_000, len(subjects))
    assert ses.get_contact_list(ContactListName="people")["ContactListName"] == "people"
    assert ses.get_suppressed_destination(EmailAddress="bad@example.com")


def test_a_message_in_flight_comes_back_at_its_deadline_with_its_count(mortal: Mortal) -> None:
    sqs = mortal.client("sqs")
    queue = sqs.create_queue(QueueName="work")["QueueUrl"]
    for body in ("held", "given back", "deleted"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=4)["Messages"]
    handles = {message["Body"]: message["ReceiptHandle"] for message in got}
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handles["deleted"])
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handles["given back"], VisibilityTimeout=0)
    due = time.monotonic() + 4
    mortal.reborn()

    def receive(wait: int) -> list[tuple[str, str]]:
        answer = sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=wait, AttributeNames=["ApproximateReceiveCount"]
        )
        return [(m["Body"], m["Attributes"]["ApproximateReceiveCount"]) for m in answer.get("Messages", [])]

    assert receive(0) == [("given back", "2")]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handles["held"], VisibilityTimeout=2)
    assert receive(8) == [("held", "2")]
    assert time.monotonic() < due + 4


def test_a_transaction_retried_after_the_death_is_not_made_twice(mortal: Mortal) -> None:
    dynamodb = mortal.client("dynamodb")
    dynamodb.create_table(**TABLE)
    once = {
        "Put": {
            "TableName": "book",
            "Item": {"key": {"S": "a"}, "v": {"S": "1"}},
            "ConditionExpression": "attribute_not_exists(#k)",
            "ExpressionAttributeNames": {"#k": "key"},
        }
    }
    dynamodb.transact_write_items(TransactItems=[once], ClientRequestToken="same")
    mortal.reborn()
    dynamodb.transact_write_items(TransactItems=[once], ClientRequestToken="same")
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        dynamodb.transact_write_items(TransactItems=[once], ClientRequestToken="another")


def test_changed_and_removed_items_stay_so(mortal: Mortal) -> None:
    dynamodb = mortal.client("dynamodb")
    dynamodb.create_table(**TABLE)
    for key in "abc":
        dynamodb.put_item(TableName="book", Item={"key": {"S": key}, "v": {"S": "old"}})
    dynamodb.update_item(
        TableName="book",
        Key={"key": {"S": "a"}},
        UpdateExpression="SET v = :v",
        ExpressionAttributeValues={":v": {"S": "new"}},
    )
    dynamodb.delete_item(TableName="book", Key={"key": {"S": "b"}})
    mortal.reborn()
    assert items(dynamodb) == {"a": "new", "c": "old"}
    dynamodb.delete_table(TableName="book")
    mortal.reborn()
    dynamodb.create_table(**TABLE)
    assert items(dynamodb) == {}, "items of a deleted table came back"


def test_versions_tags_and_removed_objects_stay_as_they_were(mortal: Mortal) -> None:
    s3 = mortal.client("s3")
    bucket, _ = notified_bucket(mortal)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="a", Body=b"one", Tagging="x=1")["VersionId"]
    second = s3.put_object(Bucket=bucket, Key="a", Body=b"two", Metadata={"by": "me"})
    s3.put_object(Bucket=bucket, Key="hidden", Body=b"there")
    s3.delete_object(Bucket=bucket, Key="hidden")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/a")
    s3.put_object(Bucket=bucket, Key="many-1", Body=b"")
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "many-1"}]})
    mortal.reborn()

    assert s3.get_object(Bucket=bucket, Key="a", VersionId=first)["Body"].read() == b"one"
    latest = s3.get_object(Bucket=bucket, Key="a")
    assert (latest["Body"].read(), latest["Metadata"], latest["VersionId"]) == (
        b"two",
        {"by": "me"},
        second["VersionId"],
    )
    assert s3.get_object_tagging(Bucket=bucket, Key="a", VersionId=first)["TagSet"] == [{"Key": "x", "Value": "1"}]
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"two"
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["a", "copy"]
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="a", Body=b"three", IfMatch='"0"')
    s3.put_object(Bucket=bucket, Key="a", Body=b"three", IfMatch=second["ETag"])
    s3.delete_object(Bucket=bucket, Key="a", VersionId=s3.head_object(Bucket=bucket, Key="a")["VersionId"])
    mortal.reborn()
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"two"


def test_an_upload_in_parts_goes_on_after_the_death(mortal: Mortal) -> None:
    s3 = mortal.client("s3")
    bucket, _ = notified_bucket(mortal)
    big = b"x" * (5 * 1024 * 1024)
    upload = {"Bucket": bucket, "Key": "big"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    parts = [{"PartNumber": 1, "ETag": s3.upload_part(**upload, PartNumber=1, Body=big)["ETag"]}]
    mortal.reborn()
    parts.append({"PartNumber": 2, "ETag": s3.upload_part(**upload, PartNumber=2, Body=b"end")["ETag"]})
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    mortal.reborn()
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == big + b"end"
    assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")


def test_roles_sessions_buses_and_topics_are_kept(mortal: Mortal) -> None:
    trust = {"Version": "2012-10-17", "Statement": []}
    mortal.client("iam", "111122223333").create_role(RoleName="ses", AssumeRolePolicyDocument=json.dumps(trust))
    mortal.client("events").create_event_bus(Name="happenings")
    mortal.client("sns").create_topic(Name="news")
    role = "arn:aws:iam::111122223333:role/ses"
    keys = mortal.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    mortal.reborn()
    assumed = mortal.client(
        "sts",
        keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    assert assumed.get_caller_identity()["Account"] == "111122223333"
    assert mortal.client("iam", "111122223333").get_role(RoleName="ses")["Role"]["Arn"] == role
    assert mortal.client("events").describe_event_bus(Name="happenings")["Name"] == "happenings"
    assert len(mortal.client("sns").list_topics()["Topics"]) == 1


def test_bytes_of_replaced_objects_leave_the_disk(mortal: Mortal) -> None:
    def files() -> set[str]:
        return {file.name for file in (mortal.data / "aws" / "objects").rglob("*") if file.is_file()}

    s3 = mortal.client("s3")
    bucket, _ = notified_bucket(mortal)
    before = files()
    for _ in range(5):
        s3.put_object(Bucket=bucket, Key="same", Body=b"x" * 1000)
    assert len(files() - before) == 1
