"""A test event for every customer: does S3 tell the queue, and does the sensor hear it?

A trigger of a change that nobody made is written and taken away at once. The sensor's run finds it gone and ends
without doing anything; that the sensor has heard of it is in the book.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from postroom.aws.counts import queue_counts
from postroom.aws.names import Names
from postroom.changes.store import open_store, trigger_key
from postroom.errors import classify
from postroom.ledger import Book

log = logging.getLogger("postroom.changes")
AT_ONCE = 8
LOOK_AGAIN_SECONDS = 0.3


def sound(book: Book, codes: Iterable[str], *, seconds: float = 20) -> dict[str, str]:
    """What is wrong, by customer; nothing for those whose test event has arrived."""
    change_id = f"doctor-{uuid4().hex[:12]}"
    wanted, before = list(codes), _messages(book)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rung = pool.map(lambda code: (code, _ring(code, change_id)), wanted)
        wrong = {code: said for code, said in rung if said}
    waiting = [code for code in wanted if code not in wrong]
    deadline = time.monotonic() + seconds
    while waiting:
        events = book.events.of_entity(f"CHANGE#{change_id}")
        heard = {str(event.properties.get("customer")) for event in events}
        waiting = [code for code in waiting if code not in heard]
        if time.monotonic() > deadline:
            break
        if waiting:
            time.sleep(LOOK_AGAIN_SECONDS)
    if waiting:
        after, names = _messages(book), Names(book.settings.prefix)
        for code in waiting:
            queue = names.changes_queue(code)
            arrived = after.get(queue, 0) > before.get(queue, 0)
            wrong[code] = "its queue has it, but no sensor reads it" if arrived else "S3 did not tell its queue"
    return wrong


def _messages(book: Book) -> dict[str, int]:
    counts = queue_counts(f"{book.settings.prefix}-changes")
    return {name: count.waiting + count.in_flight for name, count in counts.items()}


def _ring(code: str, change_id: str) -> str | None:
    shelf, key = open_store().shelf, trigger_key(code, change_id)
    try:
        kept = shelf.write(key, {"changeId": change_id, "customer": code, "test": True}, over=None)
    except Exception as error:
        return f"its trigger can't be written: {classify(error)}"
    try:
        shelf.remove(key, only=kept.etag)
    except Exception as error:
        log.warning("%s could not be taken away: %s", key, classify(error))
    return None
