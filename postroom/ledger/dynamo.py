"""DynamoDB's wire format to and from plain values, and conditional writes that say why they failed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from postroom.errors import cancellation_reasons, classify

_to_wire = TypeSerializer()
_from_wire = TypeDeserializer()
Item = dict[str, Any]


def wire(value: Any) -> Any:
    return _to_wire.serialize(_exact(value))


def wire_item(values: Mapping[str, Any]) -> Item:
    """A plain mapping as a DynamoDB item; what is None is left out."""
    return {name: wire(value) for name, value in values.items() if value is not None}


def plain_item(item: Mapping[str, Any]) -> Item:
    return {name: _plain(_from_wire.deserialize(value)) for name, value in item.items()}


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(k): _exact(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(v) for v in value]
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return bytes(value.value) if hasattr(value, "value") and isinstance(value.value, bytes) else value


class ConditionFailed(Exception):
    """A conditional write did not hold; `item` is the row as it was (None when missing)."""

    def __init__(self, item: Item | None, position: int = 0) -> None:
        super().__init__("the condition did not hold")
        self.item = item
        self.position = position


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def is_impossible(error: Exception) -> bool:
    """Whether the table will never take this write: it is malformed, or the row would be too large."""
    if not isinstance(error, ClientError):
        return False
    return code_of(error) == "ValidationException" or "ValidationError" in cancellation_reasons(error)


def update(client: Any, *, tries: int = 12, **request: Any) -> Item:
    """UpdateItem; the new row, or ConditionFailed with the old one. A conflict with a transaction is tried again."""
    for attempt in range(tries):
        try:
            answer = client.update_item(
                **request, ReturnValues="ALL_NEW", ReturnValuesOnConditionCheckFailure="ALL_OLD"
            )
            return plain_item(answer.get("Attributes", {}))
        except ClientError as error:
            if code_of(error) == "ConditionalCheckFailedException":
                old: Any = error.response.get("Item")
                raise ConditionFailed(plain_item(old) if old else None) from None
            if code_of(error) != "TransactionConflictException" or attempt == tries - 1:
                raise
        _let_others_pass(attempt)
    raise AssertionError("unreachable")


def transact(client: Any, writes: Sequence[Mapping[str, Any]], *, tries: int = 12) -> None:
    """All writes or none. A conflict with another transaction is tried again; a failed condition is told."""
    for attempt in range(tries):
        try:
            client.transact_write_items(TransactItems=list(writes))
            return
        except ClientError as error:
            code = code_of(error)
            if code == "TransactionInProgressException" and attempt < tries - 1:
                pass
            elif code != "TransactionCanceledException":
                raise
            else:
                for position, reason in enumerate(error.response.get("CancellationReasons") or []):
                    if reason.get("Code") == "ConditionalCheckFailed":
                        old: Any = reason.get("Item")
                        raise ConditionFailed(plain_item(old) if old else None, position) from None
                if attempt == tries - 1 or not classify(error).retryable:
                    raise
        _let_others_pass(attempt)


def _let_others_pass(attempt: int) -> None:
    time.sleep(random.uniform(0, min(0.5, 0.01 * 2**attempt)))  # noqa: S311 - jitter, not a secret


def query(client: Any, **request: Any) -> Iterator[Item]:
    """Rows of a query, page after page."""
    limit = request.pop("Total", None)
    seen = 0
    while True:
        answer = client.query(**request)
        for item in answer.get("Items", []):
            yield plain_item(item)
            seen += 1
            if limit is not None and seen >= limit:
                return
        if not (start := answer.get("LastEvaluatedKey")):
            return
        request["ExclusiveStartKey"] = start
