"""Mails that never become an instruction."""

import json
import uuid
from collections.abc import Iterator

import pytest

from flows.email_to_site import Arrival
from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.errors import Refused
from postroom.mail import mailbox
from postroom.mail.mailbox import MailNotThere
from postroom.settings import settings


async def test_a_mail_that_is_not_in_the_bucket_is_named_and_kept_for_a_retry(provisioned: Names) -> None:
    with pytest.raises(MailNotThere, match="there is no mail at s3://") as failed:
        mailbox.fetch(provisioned.mail_bucket, "incoming/absent")
    assert failed.value.retryable


@pytest.fixture
def at_most_5000_bytes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("POSTROOM_MAIL_MAX_BYTES", "5000")
    settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.cache_clear()


@pytest.mark.usefixtures("at_most_5000_bytes")
async def test_a_mail_over_the_limit_is_refused_and_put_aside_with_the_reason(provisioned: Names) -> None:
    message_id, bucket = f"big-{uuid.uuid4().hex}", provisioned.mail_bucket
    key, raw = f"incoming/{message_id}", b"From: a@example.com\r\n\r\n" + b"a" * 5000
    client("s3").put_object(Bucket=bucket, Key=key, Body=raw)
    with pytest.raises(Refused, match="the limit is 5000") as refused:
        mailbox.fetch(bucket, key)
    await Arrival(bucket, key, message_id, f"email:{message_id}").set_aside(None, refused.value)
    aside = client("s3").get_object(Bucket=bucket, Key=f"quarantine/{message_id}")["Body"].read()
    reason = json.loads(
        client("s3").get_object(Bucket=bucket, Key=f"quarantine/{message_id}.reason.json")["Body"].read()
    )
    assert (aside, reason["code"]) == (raw, "too-large")
