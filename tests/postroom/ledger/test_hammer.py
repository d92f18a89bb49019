"""Many real processes at one key: one of them works."""

import json
import subprocess
import sys
import uuid

from postroom.ledger import Book

HAMMER = """
import json, sys
from postroom.ledger import Granted, State
from postroom.ledger.book import new_holder, open_book
book, keys = open_book(), json.loads(sys.argv[1])
sys.stdin.readline()
won = []
for key in keys:
    answer = book.leases.start(key, "task", new_holder())
    if isinstance(answer, Granted):
        won.append((key, answer.lease.fence))
        book.leases.finish(answer.lease, State.DONE, outcome={"fence": answer.lease.fence})
print(json.dumps(won))
"""


def test_eight_processes_starting_the_same_25_keys_run_each_once(book: Book) -> None:
    keys = [f"task:hammer-{uuid.uuid4().hex}" for _ in range(25)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, json.dumps(keys)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [pair for process in processes for pair in json.loads(process.communicate(timeout=120)[0])]
    assert sorted(key for key, _ in won) == sorted(keys)
    assert {row.state for row in book.leases.find_many(keys).values()} == {"done"}
