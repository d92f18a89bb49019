"""Sending one mail at most once: the delivery row decides, and what is not known is said."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError

from postroom.aws.clients import client
from postroom.errors import NetworkDown, RateLimited, TimedOut, classify
from postroom.ledger import Book
from postroom.ledger.deliveries import SENDING_MS, Delivery

TAG = "postroom-delivery"
LOOK_AGAIN_SECONDS = 0.5


def send_once(
    book: Book, batch: str, recipient: str, raw: bytes, *, sender: str, detail: Mapping[str, Any] | None = None
) -> Delivery:
    """The settled delivery of a raw mail: sent by us or by whoever was first, failed, or unknown.

    Raises RateLimited or NetworkDown when it surely was not sent and may be tried again.
    """
    delivery, mine = book.deliveries.claim(batch, recipient, detail=detail)
    if not mine:
        return _wait_for(book, delivery)
    try:
        answer = client("sesv2", retries=False).send_email(
            FromEmailAddress=sender,
            Destination={"ToAddresses": [recipient]},
            Content={"Raw": {"Data": raw}},
            EmailTags=[{"Name": TAG, "Value": delivery.delivery_id}],
        )
    except (EndpointConnectionError, ConnectTimeoutError) as error:
        book.deliveries.pending_again(batch, recipient, "SES could not be reached")
        raise NetworkDown(f"SES could not be reached: {error}") from None
    except ClientError as error:
        ours = classify(error)
        if isinstance(ours, RateLimited):
            book.deliveries.pending_again(batch, recipient, "SES asked for a slower pace")
            raise ours from None
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
        if 400 <= status < 500:
            return book.deliveries.failed(batch, recipient, str(ours))
        return book.deliveries.unknown(batch, recipient, f"SES answered {status}; it may have been sent")
    except Exception as error:
        return book.deliveries.unknown(batch, recipient, f"no answer from SES ({type(error).__name__})")
    return book.deliveries.sent(batch, recipient, answer["MessageId"])


def _wait_for(book: Book, delivery: Delivery) -> Delivery:
    """Somebody else is sending it: wait for the end of that, or until it is sure that there will be none."""
    for _ in range(int(SENDING_MS / 1000 / LOOK_AGAIN_SECONDS) + 10):
        if delivery.state != "sending":
            return delivery
        time.sleep(LOOK_AGAIN_SECONDS)
        delivery, mine = book.deliveries.claim(delivery.batch, delivery.recipient)
        if mine:  # it was given back as not sent; the caller's next try sends it
            book.deliveries.pending_again(delivery.batch, delivery.recipient, "left to the next try")
            raise TimedOut("the sender of this mail gave it back")
    return delivery
