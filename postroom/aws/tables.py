"""DynamoDB tables: keys, indexes, time to live, point-in-time recovery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.aws.resource import code_of, wait_until
from postroom.errors import Misconfigured

Key = tuple[tuple[str, str], ...]  # ((attribute, type), …): hash first, then range


@dataclass(frozen=True)
class Index:
    name: str
    key: Key

    def wire(self) -> dict[str, Any]:
        return {"IndexName": self.name, "KeySchema": _schema(self.key), "Projection": {"ProjectionType": "ALL"}}


@dataclass(frozen=True)
class Table:
    """A table as it should be, paid per request."""

    name: str
    key: Key
    indexes: tuple[Index, ...] = ()
    local_indexes: tuple[Index, ...] = ()
    ttl: str | None = None
    recovery: bool = False
    kind: str = "table"

    def differences(self) -> list[str] | None:
        described = self._describe()
        if described is None:
            return None
        found: list[str] = []
        if described["KeySchema"] != _schema(self.key):
            raise Misconfigured(f"table {self.name} exists with other keys; DynamoDB can't change them")
        local = {index["IndexName"]: index["KeySchema"] for index in described.get("LocalSecondaryIndexes", [])}
        for index in self.local_indexes:
            if local.get(index.name) != _schema(index.key):
                raise Misconfigured(f"table {self.name} lacks local index {index.name}; it can't be added later")
        present = {index["IndexName"]: index["KeySchema"] for index in described.get("GlobalSecondaryIndexes", [])}
        for index in self.indexes:
            if index.name not in present:
                found.append(f"index {index.name}")
            elif present[index.name] != _schema(index.key):
                raise Misconfigured(f"index {index.name} of table {self.name} exists with other keys")
        if self.ttl:
            ttl = client("dynamodb").describe_time_to_live(TableName=self.name)["TimeToLiveDescription"]
            if ttl.get("TimeToLiveStatus") not in ("ENABLED", "ENABLING") or ttl.get("AttributeName") != self.ttl:
                found.append("time to live")
        if self.recovery:
            backups = client("dynamodb").describe_continuous_backups(TableName=self.name)
            recovery = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
            if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
                found.append("point-in-time recovery")
        return found

    def create(self) -> None:
        attributes = dict(self.key)
        for index in (*self.indexes, *self.local_indexes):
            attributes |= dict(index.key)
        given: dict[str, Any] = {
            "TableName": self.name,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": _schema(self.key),
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": kind} for name, kind in attributes.items()
            ],
        }
        if self.indexes:
            given["GlobalSecondaryIndexes"] = [index.wire() for index in self.indexes]
        if self.local_indexes:
            given["LocalSecondaryIndexes"] = [index.wire() for index in self.local_indexes]
        try:
            client("dynamodb").create_table(**given)
        except ClientError as error:
            if code_of(error) != "ResourceInUseException":  # someone was quicker
                raise
        self._wait_active()
        self.mend(self.differences() or [])

    def mend(self, differences: list[str]) -> None:
        for difference in differences:
            if difference == "time to live":
                self._unless_done(self._expire)
            elif difference == "point-in-time recovery":
                client("dynamodb").update_continuous_backups(
                    TableName=self.name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
                )
            else:
                self._add(next(index for index in self.indexes if f"index {index.name}" == difference))

    def _expire(self) -> None:
        wish = {"Enabled": True, "AttributeName": self.ttl}
        client("dynamodb").update_time_to_live(TableName=self.name, TimeToLiveSpecification=wish)

    def _add(self, index: Index) -> None:
        self._wait_active()  # DynamoDB builds one index at a time
        change = {
            "TableName": self.name,
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in index.key],
            "GlobalSecondaryIndexUpdates": [{"Create": index.wire()}],
        }
        self._unless_done(lambda: client("dynamodb").update_table(**change))
        self._wait_active()

    def _unless_done(self, change: Callable[[], object]) -> None:
        """Makes the change; a refusal counts only if no concurrent run has made the same one."""
        try:
            change()
        except ClientError as error:
            if code_of(error) not in {"ValidationException", "ResourceInUseException"}:
                raise
            wait_until(lambda: not self.differences(), f"table {self.name} still differs ({error})", seconds=60)

    def _describe(self) -> dict[str, Any] | None:
        try:
            return dict(client("dynamodb").describe_table(TableName=self.name)["Table"])
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return None
            raise

    def _wait_active(self) -> None:
        def active() -> bool:
            described = self._describe() or {}
            indexes = described.get("GlobalSecondaryIndexes", [])
            return described.get("TableStatus") == "ACTIVE" and all(
                index.get("IndexStatus", "ACTIVE") == "ACTIVE" for index in indexes
            )

        wait_until(active, f"table {self.name} is not active", seconds=600)


def _schema(key: Key) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for (name, _), kind in zip(key, ("HASH", "RANGE"), strict=False)]
