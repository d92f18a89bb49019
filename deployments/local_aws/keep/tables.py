"""DynamoDB: every item that a request wrote or removed, and the tokens of finished transactions."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from ministack.services import dynamodb

from deployments.local_aws.keep.journal import Journal
from deployments.local_aws.keep.request import Request
from deployments.local_aws.keep.stores import Stores, scoped_stores

_ITEM_ACTIONS = {
    *("PutItem", "GetItem", "UpdateItem", "DeleteItem", "Query", "Scan", "BatchWriteItem", "BatchGetItem"),
    *("TransactWriteItems", "TransactGetItems", "DescribeTable", "ListTables", "DescribeTimeToLive"),
    *("DescribeContinuousBackups", "ListTagsOfResource", "ExecuteStatement", "ExecuteTransaction"),
}
_HUGE = {"items", dynamodb._INDEX_MEMBERS}


class Tables:
    service = "dynamodb"

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.touched: dict[tuple[str, Any, Any], Any] = {}  # (table's ARN, keys) → item, None when removed
        self.tokens: list[str] = []
        left_out = ("_stream_records", "_stream_trimmed", "_closed_streams", "_txn_idempotency", "_backups")
        self.settings = Stores(journal, "table", scoped_stores(dynamodb, left_out), _slim)

    def restore(self) -> None:
        self.settings.restore()
        by_arn = {}
        for table in dynamodb._tables._data.values():
            table["items"] = defaultdict(dict)
            dynamodb._items_replaced(table)
            by_arn[table["TableArn"]] = table
        for (arn, hash_key, range_key), item in self.journal.rows("item"):
            if arn in by_arn:
                dynamodb._set_item(by_arn[arn], hash_key, range_key, item)
            else:
                self.journal.drop("item", (arn, hash_key, range_key))  # its table was deleted
        for key, entry in self.journal.rows("token"):
            if time.time() - entry["completed_at"] < dynamodb._TXN_TOKEN_TTL:
                dynamodb._txn_idempotency._data[key] = entry
            else:
                self.journal.drop("token", key)

    def watch(self) -> None:
        """From now on every write is noticed, whichever action or reaper makes it."""
        set_item, remove_item = dynamodb._set_item, dynamodb._remove_item
        replaced, store_token = dynamodb._items_replaced, dynamodb._txn_token_store

        def noticed_set(table: Any, hash_key: Any, range_key: Any, item: Any) -> Any:
            old = set_item(table, hash_key, range_key, item)
            self.touched[table["TableArn"], hash_key, range_key] = item
            return old

        def noticed_remove(table: Any, hash_key: Any, range_key: Any) -> Any:
            old = remove_item(table, hash_key, range_key)
            if old is not None:
                self.touched[table["TableArn"], hash_key, range_key] = None
            return old

        def noticed_replaced(table: Any) -> None:
            replaced(table)
            arn = table["TableArn"]
            for key in [key for key, _ in self.journal.rows("item") if key[0] == arn]:
                self.touched[key] = table["items"].get(key[1], {}).get(key[2])
            for hash_key, under in table["items"].items():
                for range_key, item in under.items():
                    self.touched[arn, hash_key, range_key] = item

        def noticed_token(token: str, entry: Any) -> None:
            store_token(token, entry)
            self.tokens.append(token)

        dynamodb._set_item, dynamodb._remove_item = noticed_set, noticed_remove
        dynamodb._items_replaced, dynamodb._txn_token_store = noticed_replaced, noticed_token

    def collect(self, request: Request | None) -> None:
        while self.touched:
            key, item = self.touched.popitem()
            if item is None:
                self.journal.drop("item", key)
            else:
                self.journal.put("item", key, item)
        if self.tokens:
            wanted, self.tokens = set(self.tokens), []
            for key, entry in dynamodb._txn_idempotency._data.items():
                if key[-1] in wanted:
                    self.journal.put("token", key, entry)
        if request and request.service == "dynamodb" and request.action not in _ITEM_ACTIONS:
            if request.action == "DeleteTable":
                self._forget_items(request.names())
            self.settings.collect(request.names())

    def _forget_items(self, name: str) -> None:
        arns = {table["TableArn"] for table in dynamodb._tables._data.values()}
        for key, _ in list(self.journal.rows("item")):
            if key[0] not in arns and key[0].endswith(f"/{name}"):
                self.journal.drop("item", key)


def _slim(name: str, value: Any) -> Any:
    if name != "_tables":
        return value
    return {key: part for key, part in value.items() if key not in _HUGE}
