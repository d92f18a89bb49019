"""Deliveries: beside a plain loop, the share of the allowed pace, the ceiling, and memory for a long list."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.far import far
from benchmarks.subscribers import KIND, TOPIC, Account, change, people, private_aws
from benchmarks.table import Table

TITLE = "Deliveries"
ROUNDS = 3
MAILS = 400  # of one round
FAR_MS = 40
PACES = ((1.0, 30), (14.0, 280))  # allowed mails a second, mails
LONG = int(os.environ.get("POSTROOM_BENCH_RECIPIENTS", "50000"))
SHORT, LEFT = 5000, 500  # the list beside it; of each, not told yet


def measure() -> str:
    """The findings as Markdown."""
    with private_aws():
        near = _side_by_side(1, MAILS)
        with far(os.environ["AWS_ENDPOINT_URL"], FAR_MS) as url:
            os.environ["AWS_ENDPOINT_URL_SESV2"] = url
            away = _side_by_side(2, MAILS // 2)
            del os.environ["AWS_ENDPOINT_URL_SESV2"]
        shares = [(rate, *_share(3 + number, rate, mails)) for number, (rate, mails) in enumerate(PACES)]
        short, long = _memory(8, SHORT), _memory(9, LONG)
    table = Table(["what", "measured"])
    for where, (ours, plain) in (("", near), (f", SES {FAR_MS} ms away", away)):
        table.rows += [
            [f"plain sequential boto3 loop, without a book{where}", f"{plain:.0f} mails/s"],
            [f"`deliver`, each mail claimed and written down{where}", f"{ours:.0f} mails/s ({ours / plain:.1f}×)"],
        ]
    table.rows += [
        *[
            [f"share of an allowed {rate:g}/s", f"{share:.1%}, {refused} times too fast for SES"]
            for rate, share, refused in shares
        ],
        [f"peak memory, {SHORT:,} recipients", f"{short:.0f} MB"],
        [f"peak memory, {LONG:,} recipients", f"{long:.0f} MB"],
    ]
    goals = [
        ("≥ 60 mails/s with the book", near[0] >= 60),
        *[(f"≥ 95 % of {rate:g}/s, never faster", share >= 0.95 and not refused) for rate, share, refused in shares],
        ("memory does not grow with the list", long < short + 25),
    ]
    table.sentences = [
        f"One local AWS beside it on the same machine; {MAILS} mails a round, {ROUNDS} rounds in turns, medians. The "
        "loop sends the same mail with one client and keeps no record. SES is on the same machine, then (half the "
        f"mails) behind a proxy that holds every answer for {FAR_MS} ms, as a network would. The share is counted from "
        "the times at which SES took the first and the last mail. Memory: a process that goes on with a delivery of "
        f"which all but {LEFT} were told before; it reads the whole list and looks everybody up in the book.",
        "Goals: " + " · ".join(f"{'✓' if reached else '✗'} {goal}" for goal, reached in goals),
    ]
    return table.markdown()


def _side_by_side(number: int, mails: int) -> tuple[float, float]:
    """Mails per second of ours and of the loop, in turns."""
    account = Account(number, rate=100_000.0)
    account.subscribe(people(mails))
    ours, plain = [], []
    for _ in range(ROUNDS):
        began = time.monotonic()
        asyncio.run(_deliver(account, change()))
        ours.append(mails / (time.monotonic() - began))
        plain.append(_loop(account, mails))
    return median(ours), median(plain)


def _loop(account: Account, mails: int) -> float:
    from postroom.delivery.writing import render

    subject, text, html = render(KIND, change(), account.customer)
    content = {"Simple": {"Subject": {"Data": subject}, "Body": {"Text": {"Data": text}, "Html": {"Data": html}}}}
    ses, began = account.ses(), time.monotonic()
    for address in people(mails):
        ses.send_email(
            FromEmailAddress=account.customer.sender,
            Destination={"ToAddresses": [address]},
            Content=content,
            ListManagementOptions={"ContactListName": account.customer.contact_list, "TopicName": TOPIC},
        )
    return mails / (time.monotonic() - began)


def _share(number: int, rate: float, mails: int) -> tuple[float, int]:
    """The share of the allowed pace, and how often SES found it too fast."""
    account, told = Account(number, rate), change()
    account.subscribe(people(mails))
    rows = asyncio.run(_deliver(account, told))
    times = account.sent()
    return (len(times) - 1) / (times[-1] - times[0]) / rate, sum(row.tries - 1 for row in rows)


async def _deliver(account: Account, told: dict[str, Any]) -> list[Any]:
    from postroom.delivery.notice import Notice
    from postroom.delivery.send import deliver
    from postroom.ledger.book import open_book

    report = await deliver(open_book(), change=told, customer=account.customer, topic=TOPIC, kind=KIND)
    rows = list(open_book().deliveries.of_batch(Notice.of(told, account.customer, TOPIC, KIND).batch))
    if not len(rows) == report.sent == report.recipients:
        raise AssertionError(f"{report.sent} of {report.recipients} were told")
    return rows


def _memory(number: int, recipients: int) -> float:
    """Peak memory, in MB, of a process that tells the last of so many recipients."""
    from postroom.delivery.notice import Notice
    from postroom.ledger.book import open_book

    account, told, everybody = Account(number, rate=100_000.0), change(), people(recipients)
    account.subscribe(everybody)
    notice = Notice.of(told, account.customer, TOPIC, KIND)
    table, dynamodb = open_book().deliveries.table, open_book().dynamodb
    for at in range(0, recipients - LEFT, 25):
        rows = [
            {"batch": notice.batch, "recipient": each, "state": "sent", "delivery_id": f"{number}-{each}"}
            for each in everybody[at : min(at + 25, recipients - LEFT)]
        ]
        puts = [{"PutRequest": {"Item": {name: {"S": text} for name, text in row.items()}}} for row in rows]
        dynamodb.batch_write_item(RequestItems={table: puts})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.delivery"],
        input=json.dumps({"change": told, "customer": asdict(account.customer)}),
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return float(done.stdout) / 1024


def _alone() -> None:
    """In a process of its own: goes on with a delivery, prints its peak memory in kB."""
    from postroom.delivery.customer import Customer
    from postroom.delivery.send import deliver
    from postroom.ledger.book import open_book

    asked = json.load(sys.stdin)
    customer = Customer(**asked["customer"])
    asyncio.run(deliver(open_book(), change=asked["change"], customer=customer, topic=TOPIC, kind=KIND))
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


if __name__ == "__main__":
    _alone()
