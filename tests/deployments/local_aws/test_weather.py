"""Bad weather on order."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.deployments.local_aws.conftest import Mortal


def order(aws: Mortal, **wish: Any) -> None:
    request = urllib.request.Request(f"{aws.url}/_postroom/weather", json.dumps(wish).encode(), method="PUT")
    urllib.request.urlopen(request).close()


@pytest.fixture
def aws(mortal: Mortal) -> Iterator[Mortal]:
    yield mortal
    order(mortal, kind="clear")


def queued(sqs: Any, url: str) -> int:
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(found["Attributes"]["ApproximateNumberOfMessages"])


def test_refusing_answers_500_and_does_nothing(aws: Mortal) -> None:
    sqs, s3 = aws.client("sqs"), aws.client("s3")
    url = sqs.create_queue(QueueName="rain")["QueueUrl"]
    order(aws, kind="refusing", seconds=60)
    for call in (lambda: sqs.send_message(QueueUrl=url, MessageBody="x"), lambda: s3.create_bucket(Bucket="rain")):
        with pytest.raises(ClientError) as refused:
            call()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert refused.value.response["Error"]["Code"] in ("InternalServerError", "InternalError")
    order(aws, kind="clear")
    assert queued(sqs, url) == 0


def test_forgetful_does_it_and_answers_500(aws: Mortal) -> None:
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName="fog")["QueueUrl"]
    order(aws, kind="forgetful", seconds=60, service="sqs")
    with pytest.raises(ClientError):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    aws.client("s3").list_buckets()  # another service is well
    order(aws, kind="clear")
    assert queued(sqs, url) == 1


def test_silent_answers_when_it_is_over(aws: Mortal) -> None:
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName="fog-bank")["QueueUrl"]
    order(aws, kind="silent", seconds=1)
    began = time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert time.monotonic() - began > 0.8
    assert queued(sqs, url) == 1


@pytest.mark.parametrize(
    "wish", [{"kind": "hail"}, {"kind": "silent", "seconds": 0}, {"kind": "silent", "share": 2}, []]
)
def test_what_is_no_weather_is_refused(aws: Mortal, wish: Any) -> None:
    request = urllib.request.Request(f"{aws.url}/_postroom/weather", json.dumps(wish).encode(), method="PUT")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 400
    assert b"must be" in refused.value.read()
