"""Writes that meet others on the same rows, or too many of them, are tried again; what can never be taken is not."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from postroom.errors import classify
from postroom.ledger import Book, Event, Granted
from postroom.ledger.dynamo import is_impossible


def refusal(code: str, reasons: tuple[str, ...] = (), status: int = 400) -> dict[str, Any]:
    told = [{"Code": reason} for reason in reasons]
    metadata = {"HTTPStatusCode": status}
    return {"Error": {"Code": code, "Message": code}, "ResponseMetadata": metadata, "CancellationReasons": told}


CONFLICT = refusal("TransactionConflictException")
CANCELLED = refusal("TransactionCanceledException", ("None", "TransactionConflict"))
THROTTLED = refusal("TransactionCanceledException", ("ThrottlingError", "None", "TransactionConflict"))
Crowd = Callable[[dict[str, Any], int], None]


@pytest.fixture
def crowd(book: Book) -> Iterator[Crowd]:
    """The table answers so many writes with a refusal, as it does when others write too."""
    left: list[dict[str, Any]] = []

    def gather(answer: dict[str, Any], times: int) -> None:
        left.extend([answer] * times)

        def refuse(**_: Any) -> tuple[AWSResponse, dict[str, Any]] | None:
            return (AWSResponse("", 400, {}, None), left.pop()) if left else None

        for operation in ("UpdateItem", "TransactWriteItems"):
            book.dynamodb.meta.events.register(f"before-call.dynamodb.{operation}", refuse)

    yield gather
    left.clear()  # the client is shared


@pytest.mark.parametrize("refused", [CONFLICT, CANCELLED, THROTTLED], ids=["conflict", "cancelled", "throttled"])
def test_a_write_in_a_crowd_gets_through(book: Book, crowd: Crowd, refused: dict[str, Any]) -> None:
    key = f"task:{uuid.uuid4().hex}"
    crowd(refused, 3)
    event = None if refused is CONFLICT else Event("Processing Started", key, "task")
    assert isinstance(book.leases.start(key, "task", "me", event=event), Granted)


@pytest.mark.parametrize(
    ("answer", "category"),
    [
        (CONFLICT, "server"),
        (CANCELLED, "server"),
        (THROTTLED, "rate-limit"),
        (refusal("RequestTimeout"), "timeout"),
        (refusal("RequestThrottled", status=403), "rate-limit"),
        (refusal("KmsThrottled"), "rate-limit"),
    ],
)
def test_what_passes_by_itself_is_worth_another_try(answer: dict[str, Any], category: str) -> None:
    error = ClientError(answer, "Write")
    assert (classify(error).category, classify(error).retryable) == (category, True)
    assert not is_impossible(error)


@pytest.mark.parametrize(
    "answer",
    [
        refusal("ValidationException"),
        refusal("TransactionCanceledException", ("ValidationError", "TransactionConflict")),
    ],
)
def test_what_the_table_will_never_take_is_not_tried_again(answer: dict[str, Any]) -> None:
    error = ClientError(answer, "Write")
    assert is_impossible(error)
    assert not classify(error).retryable
