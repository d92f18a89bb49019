"""The file of kept rows: staged one by one, written together."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_GONE = object()


class Journal:
    """Rows by (kind, key). Nothing staged is on disk before commit, everything is after it.

    The operating system outlives a killed process, so a commit need not wait for the disk.
    """

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA busy_timeout=5000;"
            "CREATE TABLE IF NOT EXISTS rows (kind TEXT, key BLOB, value BLOB, PRIMARY KEY (kind, key)) WITHOUT ROWID;"
        )
        self._staged: dict[tuple[str, bytes], Any] = {}
        self._also: list[tuple[str, tuple[Any, ...]]] = []

    def put(self, kind: str, key: Any, value: Any) -> None:
        self._staged[kind, packed(key)] = packed(value)

    def drop(self, kind: str, key: Any) -> None:
        self._staged[kind, packed(key)] = _GONE

    def define(self, tables: str) -> None:
        """Makes tables of one's own beside the rows."""
        self._file.executescript(tables)

    def also(self, statement: str, *values: Any) -> None:
        """Stages a statement on such a table; it runs in the same transaction as the rows."""
        self._also.append((statement, values))

    def forget(self) -> None:
        """Takes back the statements of a request that was refused halfway."""
        self._also.clear()

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._file.execute(query, values).fetchall()

    def commit(self) -> None:
        """Writes what is staged, all or nothing."""
        if not self._staged and not self._also:
            return
        staged, self._staged = self._staged, {}
        also, self._also = self._also, []
        put = [(kind, key, value) for (kind, key), value in staged.items() if value is not _GONE]
        gone = [name for name, value in staged.items() if value is _GONE]
        run = self._file.execute
        run("BEGIN")
        try:
            self._file.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", put)
            self._file.executemany("DELETE FROM rows WHERE kind = ? AND key = ?", gone)
            for statement, values in also:
                run(statement, values)
            run("COMMIT")
        except BaseException:
            run("ROLLBACK")
            self._staged, self._also = {**staged, **self._staged}, also + self._also
            raise

    def rows(self, kind: str) -> Iterator[tuple[Any, Any]]:
        for key, value in self._file.execute("SELECT key, value FROM rows WHERE kind = ?", (kind,)):
            yield pickle.loads(key), pickle.loads(value)  # noqa: S301 - written by this class only

    def close(self) -> None:
        self.commit()
        self._file.close()


def packed(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)
