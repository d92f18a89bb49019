"""The mail bucket: raw mail as it came, and the quarantine for mail that may not speak."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.errors import BadInput, Refused, Unavailable
from postroom.settings import settings

INCOMING, QUARANTINE = "incoming/", "quarantine/"


class MailNotThere(Unavailable):
    """The object that a message speaks of is not in the bucket; it may still come."""

    category = "not-found"
    safe_default = "The mail could not be found."


def fetch(bucket: str, key: str) -> tuple[bytes, int]:
    """A raw mail and when it was received (ms since the epoch, by the bucket's clock)."""
    largest = settings().mail_max_bytes
    try:
        answer = client("s3").get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "NoSuchBucket", "404"):
            raise MailNotThere(f"there is no mail at s3://{bucket}/{key}") from None
        raise
    with answer["Body"] as body:
        if answer["ContentLength"] > largest:
            raise Refused(
                f"the mail has {answer['ContentLength']} bytes; the limit is {largest} (POSTROOM_MAIL_MAX_BYTES)",
                safe="The mail is too large.",
                code="too-large",
            )
        return body.read(), int(answer["LastModified"].timestamp() * 1000)


def message_of(key: str) -> str:
    """The message id that a key of the bucket stands for."""
    if not key.startswith(INCOMING) or not (name := key.removeprefix(INCOMING)) or "/" in name:
        raise BadInput(f"{key!r} is not a mail: wanted {INCOMING}{{message_id}}")
    return name


def quarantine(bucket: str, key: str, message_id: str, reason: Mapping[str, Any]) -> str:
    """Put a copy of a mail that is not carried out aside, with the reason beside it; gives the copy's key."""
    s3, target = client("s3"), f"{QUARANTINE}{message_id}"
    s3.copy_object(Bucket=bucket, Key=target, CopySource={"Bucket": bucket, "Key": key})
    s3.put_object(
        Bucket=bucket,
        Key=f"{target}.reason.json",
        Body=json.dumps(reason, ensure_ascii=False, indent=1).encode(),
        ContentType="application/json",
    )
    return target
