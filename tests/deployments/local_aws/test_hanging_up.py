"""A long poll ends with its caller."""

import socket
import time
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import get_session

from postroom.aws.clients import client, region


def test_a_caller_that_hung_up_takes_no_message(local_aws: str, prefix: str) -> None:
    sqs = client("sqs")
    url = sqs.create_queue(QueueName=f"{prefix}-hung-up", Attributes={"VisibilityTimeout": "600"})["QueueUrl"]
    body = f'{{"QueueUrl": "{url}", "WaitTimeSeconds": 20}}'.encode()
    headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "Content-Type": "application/x-amz-json-1.0"}
    request = AWSRequest("POST", local_aws + "/", data=body, headers=headers)
    SigV4Auth(get_session().get_credentials(), "sqs", region()).add_auth(request)
    at = urlsplit(local_aws)
    with socket.create_connection((at.hostname, at.port)) as caller:
        lines = [f"{name}: {value}" for name, value in {**request.headers, "Host": at.netloc}.items()]
        head = "\r\n".join(["POST / HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
        caller.sendall(head.encode() + body)
        caller.settimeout(0.5)
        try:
            answered = caller.recv(1)  # it polls
        except TimeoutError:
            answered = b""
        assert answered == b""
    sqs.send_message(QueueUrl=url, MessageBody="for someone who listens")
    taken, soon = "ApproximateNumberOfMessagesNotVisible", time.monotonic() + 1
    while time.monotonic() < soon:  # a poll that went on would look ten times a second
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[taken])["Attributes"]
        assert found[taken] == "0"
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert got["Body"] == "for someone who listens"
