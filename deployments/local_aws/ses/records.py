"""What SES remembers, in tables beside the journal's rows: written with them, in one transaction."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from deployments.local_aws.keep.journal import Journal
from deployments.local_aws.ses.wire import Refused

_TABLES = """
CREATE TABLE IF NOT EXISTS ses (
    account TEXT, kind TEXT, name TEXT, value TEXT, PRIMARY KEY (account, kind, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY, at REAL, account TEXT, message_id TEXT, mail TEXT, counted INTEGER);
CREATE INDEX IF NOT EXISTS outbox_by_account ON outbox (account, number);
CREATE TABLE IF NOT EXISTS raw (message_id TEXT PRIMARY KEY, content BLOB);
"""
DAY = 86_400
PAGE = 1000


class Records:
    """Documents by account, kind and name; and the mails that were sent."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        journal.define(_TABLES)
        self._sent: defaultdict[str, Counter[int]] = defaultdict(Counter)  # account → minute → recipients
        since = time.time() - DAY
        counts = "SELECT account, CAST(at / 60 AS INTEGER), SUM(counted) FROM outbox WHERE at > ? GROUP BY 1, 2"
        for account, minute, count in journal.read(counts, since):
            self._sent[account][minute] = count

    def get(self, account: str, kind: str, name: str) -> dict[str, Any] | None:
        found = self.journal.read(
            "SELECT value FROM ses WHERE account = ? AND kind = ? AND name = ?", account, kind, name
        )
        return dict(json.loads(found[0][0])) if found else None

    def put(self, account: str, kind: str, name: str, value: dict[str, Any]) -> None:
        self.journal.also("INSERT OR REPLACE INTO ses VALUES (?, ?, ?, ?)", account, kind, name, json.dumps(value))

    def drop(self, account: str, kind: str, name: str) -> None:
        self.journal.also("DELETE FROM ses WHERE account = ? AND kind = ? AND name = ?", account, kind, name)

    def drop_all(self, account: str, kind: str) -> None:
        self.journal.also("DELETE FROM ses WHERE account = ? AND kind = ?", account, kind)

    def walk(self, account: str, kind: str, after: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Documents in the order of their names, a page in memory at a time."""
        query = "SELECT name, value FROM ses WHERE account = ? AND kind = ? AND name > ? ORDER BY name LIMIT ?"
        while rows := self.journal.read(query, account, kind, after, PAGE):
            for name, value in rows:
                yield name, json.loads(value)
            after = rows[-1][0]

    def post(self, account: str, message_id: str, mail: dict[str, Any], at: float, counted: int) -> None:
        """One mail into the outbox; `counted` recipients weigh on the daily quota."""
        self.journal.also(
            "INSERT INTO outbox (at, account, message_id, mail, counted) VALUES (?, ?, ?, ?, ?)",
            *(at, account, message_id, json.dumps(mail), counted),
        )
        self._sent[account][int(at // 60)] += counted

    def keep_raw(self, message_id: str, content: bytes) -> None:
        self.journal.also("INSERT OR REPLACE INTO raw VALUES (?, ?)", message_id, content)

    def raw(self, message_id: str) -> bytes | None:
        found = self.journal.read("SELECT content FROM raw WHERE message_id = ?", message_id)
        return bytes(found[0][0]) if found else None

    def outbox(self, account: str | None, after: int = 0) -> Iterator[str]:
        """Mails as JSON, oldest first, a page in memory at a time."""
        query = "SELECT number, mail FROM outbox WHERE number > ? AND account = ? ORDER BY number LIMIT 200"
        if account is None:
            query = query.replace("account = ?", "account IS NOT ?")
        while rows := self.journal.read(query, after, account):
            yield from (mail for _, mail in rows)
            after = rows[-1][0]

    def sent_last_day(self, account: str) -> int:
        oldest = int((time.time() - DAY) // 60)
        minutes = self._sent[account]
        for minute in [minute for minute in minutes if minute < oldest]:
            del minutes[minute]
        return sum(minutes.values())


def paged(
    found: Iterator[tuple[str, dict[str, Any]]], size: Any, most: int = PAGE
) -> tuple[list[tuple[str, dict[str, Any]]], str | None]:
    """The first `size` of them, and the token of the next page (the last name shown)."""
    try:
        wanted = int(size) if size is not None else most
    except ValueError:
        wanted = 0
    if not 1 <= wanted <= most:
        raise Refused("BadRequestException", f"PageSize must be between 1 and {most}.")
    page = []
    for entry in found:
        if len(page) == wanted:
            return page, page[-1][0]
        page.append(entry)
    return page, None
