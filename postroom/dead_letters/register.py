"""The register of dead letters: each is written down once, with the event that ends its work, and listed until
somebody redrives or dismisses it. The letter itself stays in its queue until then; should it go (a queue keeps
letters for fourteen days), the register still has all of it.

    found in the queue ──▶ row `dead:{id}` + "Task Failed"       one transaction
    redrive            ──▶ sent to its queue ──▶ row closed      cut short: sent again under the same key, done once
    dismiss            ──▶ row closed + "Dead Letter Dismissed"
    afterwards         ──▶ taken out of the queue                by the next look, if not at once
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from postroom.aws.clients import client
from postroom.aws.queues import find_queue
from postroom.dead_letters.letter import OURS, DeadLetter
from postroom.dead_letters.queues import dead_letter_queues, look_through
from postroom.errors import BadInput, Missing, sanitise
from postroom.ledger import Book, Event, State
from postroom.ledger.dynamo import ConditionFailed, Item, plain_item, query, transact, wire, wire_item

INLINE_BYTES = 100_000  # of a body in its row; larger ones lie in the tasks' bucket


class Register:
    """Dead letters of one post room."""

    def __init__(self, book: Book) -> None:
        self._book, self._db, self._table, self._names = book, book.dynamodb, book.names.leases, book.names

    # looking

    def listed(self) -> list[DeadLetter]:
        """Letters that wait for a decision, oldest first; their bodies only when they are small."""
        found = query(
            self._db,
            TableName=self._table,
            IndexName="open",
            KeyConditionExpression="#open = :dead",
            ExpressionAttributeNames={"#open": "open"},
            ExpressionAttributeValues={":dead": wire("dead")},
        )
        return [_letter(item) for item in found]

    def read(self, letter_id: str) -> tuple[DeadLetter, str]:
        """The letter, whole, and how it stands: listed, redriven, dismissed or done by another hand."""
        item = self._item(letter_id)
        letter = _letter(item)
        if place := item.get("body_in"):
            text = client("s3").get_object(Bucket=self._names.tasks_bucket, Key=place)["Body"].read()
            letter = _letter({**item, "body": text.decode("utf-8", "surrogatepass")})
        return letter, "listed" if "open" in item else str(item["ended_as"])

    def _item(self, letter_id: str) -> Item:
        answer = self._db.get_item(TableName=self._table, Key={"key": wire(f"dead:{letter_id}")}, ConsistentRead=True)
        if not answer.get("Item"):
            raise Missing(f"there is no dead letter {letter_id[:120]!r}; to see which there are: dead-letters list")
        return plain_item(answer["Item"])

    # finding

    def gather(self) -> list[DeadLetter]:
        """Looks through every dead-letter queue; the letters that nobody had written down before."""
        new: list[DeadLetter] = []

        def visit(letter: DeadLetter) -> bool:
            state = self._enter(letter)
            if state == "new":
                new.append(letter)
            return state == "ended"

        def look(queue: tuple[str, str]) -> list[str]:
            return look_through(*queue, self._names, visit)

        with ThreadPoolExecutor(8, thread_name_prefix="dead-letters") as threads:
            there = {each for found in threads.map(look, dead_letter_queues(self._names).items()) for each in found}
        self._cross_off(there)
        return sorted(new, key=lambda letter: letter.at_ms)

    def _enter(self, letter: DeadLetter) -> str:
        """new, listed or ended."""
        known = self._db.get_item(TableName=self._table, Key={"key": wire(f"dead:{letter.id}")}, ConsistentRead=True)
        if known.get("Item"):
            return "listed" if "open" in known["Item"] else "ended"
        now = self._book.clock.now_ms()
        row: dict[str, Any] = {
            **letter.as_json(),
            "key": f"dead:{letter.id}",
            "letter_key": letter.key,
            "job": "dead",
            "letter_job": letter.job,
            "open": "dead",
            "state": "waiting",
            "effective_until": letter.at_ms,
            "entered_at": now,
            "attributes": json.dumps(letter.attributes, default=_no_bytes),
        }
        body = letter.body.encode("utf-8", "surrogatepass")
        if len(body) > INLINE_BYTES:
            row["body_in"] = f"dead-letters/{letter.id}"
            client("s3").put_object(Bucket=self._names.tasks_bucket, Key=row["body_in"], Body=body)
        else:
            row["body"] = letter.body
        put: Item = {"TableName": self._table, "Item": wire_item(row)}
        put |= {"ConditionExpression": "attribute_not_exists(#key)", "ExpressionAttributeNames": {"#key": "key"}}
        try:
            self._transact({"Put": put}, letter.listed(told=self._told(letter)))
        except ConditionFailed:
            return "listed"  # another look was quicker
        return "new"

    def _told(self, letter: DeadLetter) -> bool:
        """Whether the work's own end was an event already."""
        if letter.key is not None:
            row = self._book.leases.find(letter.key)
            return row is not None and row.terminal
        if letter.job == "task" and letter.named and self._book.leases.find(f"task:{letter.named}") is not None:
            return True  # it got as far as the book: that ends it, and tells of it, whatever becomes of its message
        last = self._book.events.of_entity(letter.entity, latest=1)
        return bool(last) and last[-1].event_type.endswith((" Failed", " Timeout"))

    def _cross_off(self, there: set[str]) -> None:
        """Letters that went back to their queue by another hand (a redrive in the console), or whose work was done
        after all (a Retry in the Prefect UI), are not listed any more."""
        for letter in self.listed():
            row = self._book.leases.find(letter.key) if letter.key else None
            if row is not None and row.state is State.DONE:
                self._close(letter, "done by another hand", letter.event("Done", by="another hand"))
                continue
            again = letter.next_key()
            if letter.id not in there and again and self._book.leases.find(again) is not None:
                self._close(letter, "redriven by another hand", letter.event("Redriven", by="another hand"))

    # deciding

    def redrive(self, letter_id: str) -> str | None:
        """Sends the letter to its queue once more, as a new attempt; the key of that, when it has one."""
        letter = self._to_decide(letter_id)
        url = find_queue(letter.queue)
        if url is None:
            raise Missing(f"the queue {letter.queue} of the dead letter {letter_id} is not there any more")
        body, attributes = self._as_it_came(letter)
        client("sqs").send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
        self._close(letter, "redriven", letter.event("Redriven", next_key=letter.next_key()))
        self._take_out(letter)
        return letter.next_key()

    def dismiss(self, letter_id: str) -> DeadLetter:
        """Takes the letter off the list; the event table keeps what it was and why it died."""
        letter = self._to_decide(letter_id)
        shown = sanitise(letter.body, limit=4000)
        self._close(letter, "dismissed", letter.event("Dismissed", category=letter.category, body=shown))
        self._take_out(letter)
        return letter

    def _to_decide(self, letter_id: str) -> DeadLetter:
        letter, state = self.read(letter_id)
        if state != "listed":
            raise BadInput(f"the dead letter {letter_id} is {state} already")
        return letter

    def _as_it_came(self, letter: DeadLetter) -> tuple[str, Mapping[str, Any]]:
        place = str(letter.attributes.get("body", {}).get("StringValue", ""))
        if not place:
            return letter.body, letter.attributes
        # It was too large to carry a reason, and is as large now: only which attempt it is can be said.
        bucket, _, key = place.removeprefix("s3://").partition("/")
        text = client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode("utf-8", "surrogatepass")
        attributes = {name: value for name, value in letter.attributes.items() if name not in OURS}
        if (again := letter.next_key()) is not None:
            attributes["replay"] = {"DataType": "String", "StringValue": again.rpartition(":")[2]}
        return text, attributes

    def _close(self, letter: DeadLetter, ended_as: str, event: Event) -> None:
        change: Item = {
            "TableName": self._table,
            "Key": {"key": wire(f"dead:{letter.id}")},
            "UpdateExpression": "SET #ended = :now, #as = :as, #state = :done REMOVE #open, #until",
            "ConditionExpression": "attribute_exists(#open)",
            "ExpressionAttributeNames": {
                "#ended": "ended_at",
                "#as": "ended_as",
                "#state": "state",
                "#open": "open",
                "#until": "effective_until",
            },
            "ExpressionAttributeValues": {
                ":now": wire(self._book.clock.now_ms()),
                ":as": wire(ended_as),
                ":done": wire("done"),
            },
        }
        try:
            self._transact({"Update": change}, event)
        except ConditionFailed:
            pass  # somebody decided at the same moment; what was sent twice is done once

    def _take_out(self, letter: DeadLetter) -> None:
        url = dead_letter_queues(self._names).get(letter.queue)
        if url is not None:
            look_through(letter.queue, url, self._names, lambda each: each.id == letter.id, only_one=True)

    def _transact(self, *writes: Item | Event) -> None:
        events = self._book.events
        transact(self._db, [events.put(events.stamped(w)) if isinstance(w, Event) else w for w in writes])


def _letter(item: Item) -> DeadLetter:
    return DeadLetter(
        id=item["id"],
        queue=item["queue"],
        job=item["letter_job"],
        body=item.get("body", ""),
        reason=item["reason"],
        category=item["category"],
        key=item.get("letter_key"),
        receives=item["receives"],
        at_ms=item.get("effective_until") or item["entered_at"],
        attributes=json.loads(item["attributes"], object_hook=_bytes_again),
    )


def _no_bytes(value: Any) -> Any:
    return {"hex": bytes(value).hex()}


def _bytes_again(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["hex"]) if set(value) == {"hex"} else value
