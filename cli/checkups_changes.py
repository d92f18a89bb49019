"""What `postroom doctor` looks at for changes: the customers' events, and the calendar of meetings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cli import whereabouts
from cli.findings import Finding

if TYPE_CHECKING:
    from postroom.meetings.microsoft import Access

AT_ONCE = 8
MAIL = "docs/operating.md says what a customer's account needs; `postroom customers check` tries it again."
LOAD = "Run `postroom customers load FILE` again (with --dry-run to see what differs)."


def customers() -> Iterator[Finding]:
    """Every customer has its queue, S3 tells it of changes, and the sensor hears of them: tried by a test event."""
    whereabouts.require_prefect()
    from blocks.customer import all_customers
    from postroom.aws.provision import provision_customer
    from postroom.changes.sounding import sound
    from postroom.ledger.book import open_book

    codes = list(asyncio.run(all_customers()))
    if not codes:
        yield Finding("customers", True, "none yet")
        return
    whole = []
    for code in codes:
        steps = [step for step in provision_customer(code, dry_run=True) if step.action != "unchanged"]
        if steps:
            said = "missing or different: " + ", ".join(f"{step.kind} {step.name}" for step in steps[:4])
            yield Finding(f"customer {code}", False, said, LOAD)
        else:
            whole.append(code)
    wrong = sound(open_book(), whole)
    for code, said in sorted(wrong.items()):
        yield Finding(f"customer {code}", False, f"a test event did not arrive: {said}",
                      "Is the sensor up (`postroom status`)? " + LOAD)  # fmt: skip
    heard = len(whole) - len(wrong)
    if heard:
        yield Finding("customers", True, f"{heard} of {len(codes)}: a test event went from S3 to the sensor")


def senders() -> Iterator[Finding]:
    """Every customer's account lets us send, and tells what becomes of the mails."""
    whereabouts.require_prefect()
    from blocks.customer import all_customers
    from postroom.changes.checkup import check

    known = asyncio.run(all_customers())
    if not known:
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [each for several in pool.map(check, known.values()) for each in several]
    for each in found:
        if not each.good:
            yield Finding(f"mail of {each.customer}", False, f"{each.what}: {each.said}", MAIL)
    well = len(known) - len({each.customer for each in found if not each.good})
    if well:
        yield Finding("mail of customers", True, f"{well} of {len(known)}: may be sent, and is heard of afterwards")


def calendar() -> Iterator[Finding]:
    """Microsoft gives us a token, and the calendar can be read."""
    whereabouts.require_prefect()
    from blocks.graph import find_access

    access = asyncio.run(find_access())
    if access is None:
        yield Finding("calendar", True, "no Microsoft calendar: invitations to meetings go by mail")
        return
    name = asyncio.run(_read(access))
    yield Finding("calendar", True, f"{name!r} of {access.organizer} can be read; meetings are kept there")


async def _read(access: Access) -> str:
    from postroom.meetings.graph import GraphCalendar
    from postroom.meetings.microsoft import Microsoft

    async with Microsoft(access, tries=2, longest_wait=10) as microsoft:
        return await GraphCalendar(microsoft).check()
