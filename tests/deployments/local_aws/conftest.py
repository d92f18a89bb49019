"""A local AWS that a test may kill, with clients that talk to nobody else."""

import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from deployments.local_aws import process
from workers.parts import Running, free_port, start

_SESSION = boto3.session.Session()  # reads each service's model once


class Clients:
    """boto3 clients of one account of a local AWS; they try once."""

    def __init__(self, url: str, account: str) -> None:
        self.url, self.account = url, account

    def client(self, service: str, account: str = "", **given: Any) -> Any:
        keys = {"aws_access_key_id": account or self.account, "aws_secret_access_key": "local"} | given
        config = Config(retries={"total_max_attempts": 1}, max_pool_connections=32, s3={"addressing_style": "path"})
        return _SESSION.client(service, endpoint_url=self.url, config=config, region_name="eu-west-1", **keys)  # type: ignore[call-overload]

    def outbox(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/_postroom/outbox?account={self.account}") as answer:
            return list(json.load(answer))

    def allow(self, **quota: float) -> None:
        """Sets MaxSendRate and Max24HourSend of the account."""
        url = f"{self.url}/_postroom/accounts/{self.account}/quota"
        request = urllib.request.Request(url, json.dumps(quota).encode(), method="PUT")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200


class Mortal(Clients):
    """One local AWS on its own data; `kill` is kill -9, `start` begins again on the same data and port."""

    def __init__(self, data: Path) -> None:
        self.data, self.port = data, free_port()
        super().__init__(process.url(self.port), process.ACCOUNT)
        self.running: Running | None = None
        self.start()

    def start(self) -> None:
        self.running = start(process.part(self.data, self.port))

    def kill(self) -> None:
        assert self.running is not None
        self.running.process.kill()
        self.running.process.wait()

    def reborn(self) -> None:
        self.kill()
        self.start()


def new_account() -> str:
    return f"{random.SystemRandom().randrange(10**12):012}"


def events_queue(aws: Clients, ses: Any) -> str:
    """A queue that hears all events of the configuration set `told`."""
    sqs, sns = aws.client("sqs"), aws.client("sns")
    queue = sqs.create_queue(QueueName="ses-events")["QueueUrl"]
    arn = f"arn:aws:sqs:eu-west-1:{aws.account}:ses-events"
    allow = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:*", "Resource": arn}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
    topic = sns.create_topic(Name="ses-events")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    ses.create_configuration_set(ConfigurationSetName="told")
    ses.create_configuration_set_event_destination(
        ConfigurationSetName="told",
        EventDestinationName="sns",
        EventDestination={
            "Enabled": True,
            "MatchingEventTypes": ["SEND", "DELIVERY", "BOUNCE", "COMPLAINT"],
            "SnsDestination": {"TopicArn": topic},
        },
    )
    return str(queue)


@pytest.fixture
def aws(local_aws: str) -> Clients:
    """The session's local AWS, in an account that no other test uses."""
    return Clients(local_aws, new_account())


@pytest.fixture(scope="module")
def process_to_kill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    aws = Mortal(tmp_path_factory.mktemp("aws"))
    try:
        yield aws
    finally:
        if aws.running is not None:
            aws.running.stop()


@pytest.fixture
def mortal(process_to_kill: Mortal) -> Mortal:
    """A local AWS with an account that no other test uses."""
    process_to_kill.account = new_account()
    return process_to_kill
