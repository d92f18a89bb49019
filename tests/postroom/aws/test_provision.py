"""AWS made to look as the layout says, on the local AWS."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from postroom.aws import provision
from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.errors import BadInput


def attributes(queue: str) -> dict[str, str]:
    url = client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    return dict(client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])


def received(queue: str) -> list[str]:
    """The S3 keys a queue was told of."""
    url = client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    keys = []
    while got := client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages"):
        for message in got:
            keys += [record["s3"]["object"]["key"] for record in json.loads(message["Body"]).get("Records", [])]
            client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return keys


def actions(steps: Any) -> set[str]:
    return {step.action for step in steps}


def test_a_dry_run_says_what_it_would_do_and_does_nothing(prefix: str) -> None:
    steps = [step for step in provision.plan() if step.kind != "sending identity"]
    assert actions(steps) == {"create"}
    assert [step for step in provision.plan() if step.kind != "sending identity"] == steps
    assert not [name for name in client("dynamodb").list_tables()["TableNames"] if name.startswith(prefix)]
    assert not client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls")


def test_a_second_run_finds_nothing_to_do(provisioned: Names) -> None:
    assert [step for step in provision.plan() if step.action != "unchanged"] == []
    assert actions(provision.apply()) == {"unchanged"}


def test_queues_are_as_the_contract_says(provisioned: Names) -> None:
    for queue in (provisioned.mail_queue, provisioned.tasks_queue, provisioned.ses_events_queue):
        have, dead = attributes(queue), attributes(provisioned.dead_letters(queue))
        assert (have["VisibilityTimeout"], have["ReceiveMessageWaitTimeSeconds"]) == ("60", "20")
        redrive = json.loads(have["RedrivePolicy"])
        assert (redrive["deadLetterTargetArn"], int(redrive["maxReceiveCount"])) == (dead["QueueArn"], 10)
        assert dead["MessageRetentionPeriod"] == str(14 * 86_400)


def test_buckets_are_encrypted_closed_and_tidied(provisioned: Names) -> None:
    s3 = client("s3")
    for bucket in (provisioned.mail_bucket, provisioned.tasks_bucket, provisioned.changes_bucket):
        rules = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
        assert set(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values()) == {True}
        assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert s3.get_bucket_versioning(Bucket=provisioned.changes_bucket)["Status"] == "Enabled"
    assert "Status" not in s3.get_bucket_versioning(Bucket=provisioned.mail_bucket)


def test_the_mail_queue_is_told_of_incoming_mail_only(provisioned: Names) -> None:
    received(provisioned.mail_queue)
    for key in ("incoming/one", "quarantine/one"):
        client("s3").put_object(Bucket=provisioned.mail_bucket, Key=key, Body=b"x")
    assert received(provisioned.mail_queue) == ["incoming/one"]


def test_drift_is_named_and_mended(provisioned: Names) -> None:
    url = client("sqs").get_queue_url(QueueName=provisioned.mail_queue)["QueueUrl"]
    client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "5"})
    client("s3").delete_public_access_block(Bucket=provisioned.mail_bucket)
    client("s3").put_bucket_versioning(
        Bucket=provisioned.changes_bucket, VersioningConfiguration={"Status": "Suspended"}
    )
    nothing: dict[str, Any] = {}
    client("s3").put_bucket_notification_configuration(
        Bucket=provisioned.mail_bucket, NotificationConfiguration=nothing
    )
    client("dynamodb").delete_table(TableName=provisioned.threads)
    found = {(step.kind, step.name): (step.action, step.differences) for step in provision.plan()}
    assert {key: value for key, value in found.items() if value[0] != "unchanged"} == {
        ("queue", provisioned.mail_queue): ("update", ("VisibilityTimeout",)),
        ("bucket", provisioned.mail_bucket): ("update", ("public access block",)),
        ("bucket", provisioned.changes_bucket): ("update", ("versioning",)),
        ("notification", f"{provisioned.mail_bucket}/incoming/"): ("create", ()),
        ("table", provisioned.threads): ("create", ()),
    }
    provision.apply()
    assert actions(provision.plan()) == {"unchanged"}


def test_a_customer_has_a_queue_told_of_its_own_changes_and_leaves_no_trace(provisioned: Names) -> None:
    bucket, s3 = provisioned.changes_bucket, client("s3")
    for code in ("acme", "acme-2"):
        assert actions(provision.provision_customer(code)) == {"create"}
        received(provisioned.changes_queue(code))
    assert actions(provision.provision_customer("acme")) == {"unchanged"}
    for key in ("customers/acme/c1.json", "customers/acme-2/c1.json", "archive/c1.json", "customers/acme/c1.txt"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"{}")
    assert received(provisioned.changes_queue("acme")) == ["customers/acme/c1.json"]
    assert received(provisioned.changes_queue("acme-2")) == ["customers/acme-2/c1.json"]

    assert actions(provision.remove_customer("acme", dry_run=True)) == {"remove"}
    assert actions(provision.remove_customer("acme")) == {"remove"}
    assert actions(provision.remove_customer("acme")) == {"unchanged"}
    s3.put_object(Bucket=bucket, Key="customers/acme-2/c2.json", Body=b"{}")
    assert received(provisioned.changes_queue("acme-2")) == ["customers/acme-2/c2.json"]
    assert actions(provision.plan()) == {"unchanged"}


def test_customers_that_come_at_once_lose_nothing_of_each_other(provisioned: Names) -> None:
    codes = [f"c{number}" for number in range(8)]
    ready = threading.Barrier(len(codes))

    def come(code: str) -> None:
        ready.wait(30)
        provision.provision_customer(code)

    with ThreadPoolExecutor(len(codes)) as pool:
        list(pool.map(come, codes))
    told = client("s3").get_bucket_notification_configuration(Bucket=provisioned.changes_bucket)
    assert {entry["Id"] for entry in told["QueueConfigurations"]} == {f"customer-{code}" for code in codes}


@pytest.mark.parametrize("code", ["", "Acme", "a b", "-a", "x" * 32, "../x"])
def test_a_wrong_customer_code_is_named(prefix: str, code: str) -> None:
    with pytest.raises(BadInput, match="customer code"):
        provision.provision_customer(code)


def test_a_site_has_three_buckets(prefix: str) -> None:
    assert actions(provision.provision_site("blog", f"{prefix}.example.com")) == {"create"}
    assert actions(provision.provision_site("blog", f"{prefix}.example.com")) == {"unchanged"}
    kept = client("s3").get_bucket_lifecycle_configuration(Bucket=f"media-source.blog.{prefix}.example.com")
    assert {"media", "documents"} <= {rule["ID"] for rule in kept["Rules"]}
    with pytest.raises(BadInput, match="63 characters"):
        provision.provision_site("p" * 40, "a-long-domain-name.example.com")
