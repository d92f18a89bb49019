"""Triggers that were never written: whoever archived a change died before telling its customers.

The archive is the truth. A customer of an archived change for whom it has no entry, for whom there is no
trigger of what it is now, and of whose notice the book knows nothing, has been forgotten; the sensor makes up for it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from postroom.changes.notices import open_notices
from postroom.changes.store import ChangeStore
from postroom.errors import PostroomError
from postroom.ledger.book import Book

log = logging.getLogger("postroom.changes")
REST = timedelta(seconds=60)  # longer than writing the triggers of a change takes
LOOK_BACK = timedelta(days=14)


class Amends:
    """Looks through the archive; remembers what is complete, so that a change is read once per writing."""

    def __init__(self, *, rest: timedelta = REST) -> None:
        self._rest, self._complete = rest, set[str]()

    def make(self, book: Book, store: ChangeStore) -> int:
        """How many forgotten customers were told of now."""
        now, made = datetime.now(UTC), 0
        pages = store.shelf.s3.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=store.shelf.bucket, Prefix="archive/"):
            for item in page.get("Contents", ()):
                age, seen = now - item["LastModified"], f"{item['Key']} {item['ETag']}"
                if not self._rest <= age <= LOOK_BACK or seen in self._complete:
                    continue
                try:
                    made += (found := self._one(book, store, item["Key"]))
                except PostroomError as error:
                    log.warning("%s: %s", item["Key"], error)
                    continue
                if not found:
                    self._complete.add(seen)
        return made

    def _one(self, book: Book, store: ChangeStore, key: str) -> int:
        change = store.read(key.removeprefix("archive/").removesuffix(".json"))
        forgotten = [
            code
            for code, notice in open_notices(change).items()
            if not store.triggered(change, code) and book.leases.find(notice) is None
        ]
        if forgotten:
            log.warning("change %s: %s had been forgotten", change.change_id, ", ".join(forgotten))
            store.trigger(change, forgotten)
        return len(forgotten)
