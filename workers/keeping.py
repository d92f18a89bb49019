"""Keeping held messages invisible to others, and giving them back at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

from postroom.errors import classify
from postroom.settings import Settings
from workers.held import Held, Shelf
from workers.intake import Intake
from workers.telling import tell

log = logging.getLogger("postroom.sensor")
BATCH = 10  # SQS takes ten at once
FAILURES = 3
GIVE_BACK_SECONDS = 5.0
AT_ONCE = 20  # batches on their way together


class Keeping:
    """Visibility of everything on the shelf."""

    def __init__(self, sqs: Any, shelf: Shelf, intake: Intake, s: Settings) -> None:
        self._sqs, self._shelf, self._intake, self._settings = sqs, shelf, intake, s
        self._lane = asyncio.Semaphore(AT_ONCE)

    async def keep(self) -> None:
        """Extend what is due, forever."""
        tick = min(1.0, self._settings.extend_seconds / 4)
        while True:
            await asyncio.sleep(tick)
            due = self._shelf.to_extend(self._settings.extend_seconds)
            old = [held for held in due if held.age > self._settings.hold_seconds and held.entered and not held.ending]
            await asyncio.gather(*(self._extend(batch) for batch in _batches(h for h in due if h not in old)))
            await asyncio.gather(*(self._renew(held) for held in old))

    async def _extend(self, batch: list[Held]) -> None:
        refused: dict[str, str]
        try:
            async with asyncio.timeout(self._settings.extend_seconds / 2):  # one slow batch must not cost the others
                refused = await self._change(batch, self._settings.visibility_seconds)
        except Exception as error:
            refused = dict.fromkeys((str(n) for n in range(len(batch))), str(classify(error)))
        for number, held in enumerate(batch):
            held.extended = time.monotonic()
            why = refused.get(str(number))
            held.failures = held.failures + 1 if why else 0
            if held.failures >= FAILURES:
                self._shelf.take(held)
                log.error("%s: message %s is let go, it could not be extended: %s", *_who(held), why)
                tell("let-go", held.message, reason=f"{FAILURES} failures to extend: {why}")

    async def _renew(self, held: Held) -> None:
        held.ending = True  # the watch leaves it alone meanwhile
        try:
            async with asyncio.timeout(self._settings.extend_seconds / 2):  # others are to be extended soon
                await self._intake.renew(held)
        except Exception as error:
            held.ending = False
            log.warning("%s: message %s could not be replaced by a copy yet: %r", *_who(held), error)
            await self._extend([held])

    async def give_back(self) -> int:
        """Make everything visible to others again; how many were given back."""
        batches = list(_batches(iter(self._shelf)))
        try:
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                answers = await asyncio.gather(*(self._change(b, 0) for b in batches), return_exceptions=True)
        except TimeoutError:
            log.warning("not all messages could be given back; others see them when their visibility is over")
            return 0
        given = 0
        for batch, answer in zip(batches, answers, strict=True):
            for number, held in enumerate(batch):
                if not isinstance(answer, BaseException) and str(number) not in answer:
                    given += 1
                    tell("given-back", held.message)
                self._shelf.take(held)
        return given

    async def _change(self, batch: list[Held], seconds: int) -> dict[str, str]:
        """Those that were refused, by their number in the batch."""
        async with self._lane:
            answer = await self._sqs.change_message_visibility_batch(
                QueueUrl=batch[0].message.url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": held.message.receipt, "VisibilityTimeout": seconds}
                    for number, held in enumerate(batch)
                ],
            )
        return {each["Id"]: f"{each.get('Code')}: {each.get('Message', '')}" for each in answer.get("Failed", [])}


def _who(held: Held) -> tuple[str, str]:
    return held.message.queue, held.message.id


def _batches(held: Iterable[Held]) -> Iterator[list[Held]]:
    queues: dict[str, list[Held]] = {}
    for each in held:
        queues.setdefault(each.message.url, []).append(each)
    for together in queues.values():
        for start in range(0, len(together), BATCH):
            yield together[start : start + BATCH]
