"""Answers to the people who wrote: one per thread and edit, sent at most once; then the instruction is ended.

The order makes every step repeatable: the delivery row says whether the answer went out, and what it said; an
instruction is ended only after that. Whoever comes after a crash groups by the same edit and thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from postroom.errors import BadInput, LimitReached, PostroomError
from postroom.ledger import Book
from postroom.ledger.instructions import Instruction
from postroom.ledger.threads import Said
from postroom.mail import answers
from postroom.mail.compose import Envelope
from postroom.mail.sending import send_once
from postroom.settings import settings

log = logging.getLogger("postroom.flows")
Compose = Callable[[Instruction, Sequence[Instruction]], bytes]
AFTER_ALL = "If you have been told that this could not be carried out: it has been, after all."
REPLY = {"sent": "sent", "unknown": "unknown", "failed": "none"}


@dataclass(frozen=True)
class Told:
    """What came of an edit, for the answers."""

    summary: str
    pages: tuple[str, ...] = ()
    edit_url: str | None = None
    published: str | None = None
    questions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    screenshot: bytes | None = None
    commit: str | None = None


def plain_summary(wanted: Sequence[Instruction]) -> str:
    """What to say when nobody is left who could tell what was done."""
    if all(i.kind == "undo" for i in wanted):
        return "The last change was taken back."
    return "Your mail was carried out."


def work_is_kept(error: PostroomError) -> bool:
    """Whether turns, money or time ran out over work that was going well: a retry by a person carries it on."""
    return isinstance(error, LimitReached) and error.details.get("limit") in ("turns", "budget", "time")


async def done(book: Book, edit: str, wanted: Sequence[Instruction], told: Told) -> None:
    """Tell every thread what was done, and end its instructions as done."""

    def compose(lead: Instruction, others: Sequence[Instruction], *, after_all: bool = False) -> bytes:
        return answers.done(
            _envelope(lead),
            answers.Done(
                summary=told.summary,
                edit_url=told.edit_url,
                pages=told.pages,
                left_out=[why for i in (*others, lead) for why in i.left_out],
                absorbed=[answers.Earlier(i.subject, i.text) for i in others],
                questions=told.questions,
                remarks=(*told.remarks, *([AFTER_ALL] if after_all else [])),
                screenshot=told.screenshot,
                published_url=told.published,
            ),
            sender=settings().mail_from,
        )

    about: dict[str, object] = {"commit": told.commit, "pages": list(told.pages), "edit_url": told.edit_url}
    await _answer(
        book, edit, wanted, compose, "done", about, None, told.summary, after_all=partial(compose, after_all=True)
    )


async def failed(book: Book, edit: str, wanted: Sequence[Instruction], error: PostroomError) -> None:
    """Tell every thread that it did not work out, and end its instructions as failed."""

    def compose(lead: Instruction, others: Sequence[Instruction]) -> bytes:
        if work_is_kept(error):
            unfinished = answers.Done(error.safe_message, finished=False)
            return answers.done(_envelope(lead), unfinished, sender=settings().mail_from)
        return answers.failed(
            _envelope(lead), sender=settings().mail_from, reference=lead.message_id, why=error.safe_message
        )

    await _answer(book, edit, wanted, compose, "failed", {}, str(error), error.safe_message)


async def unseen(book: Book, edit: str, made: Sequence[Instruction], error: PostroomError, commit: str) -> None:
    """Tell every thread that it is made, but could not be put onto the edit site; the instructions end as failed."""

    def compose(lead: Instruction, others: Sequence[Instruction]) -> bytes:
        return answers.unseen(
            _envelope(lead), sender=settings().mail_from, reference=lead.message_id, why=error.safe_message
        )

    await _answer(book, edit, made, compose, "failed", {"commit": commit}, str(error), answers.UNSEEN)


async def cancelled(book: Book, edit: str, wanted: Sequence[Instruction]) -> None:
    """Tell every thread that a person cancelled it; it is not carried out later."""
    why = "It was cancelled by the people who look after this site."

    def compose(lead: Instruction, others: Sequence[Instruction]) -> bytes:
        return answers.failed(_envelope(lead), sender=settings().mail_from, reference=lead.message_id, why=why)

    await _answer(book, edit, wanted, compose, "cancelled", {}, "cancelled by operator", why)


async def _answer(
    book: Book,
    edit: str,
    wanted: Sequence[Instruction],
    compose: Compose,
    status: str,
    about: dict[str, object],
    reason: str | None,
    said: str,
    *,
    after_all: Compose | None = None,
) -> None:
    open_still = [one for one in wanted if await asyncio.to_thread(_is_open, book, one)]
    by_thread = sorted(open_still, key=lambda i: (i.thread_id, i.sender, i.order))
    for _, group in groupby(by_thread, key=lambda i: (i.thread_id, i.sender)):
        *others, lead = group
        answer = partial(_send, book, lead, others, compose, status, after_all)
        answered = await asyncio.to_thread(answer) if lead.sender else "none"
        ours = Said(f"re-{_name(lead)}"[:250], book.clock.now_ms(), settings().mail_from, said)
        await asyncio.to_thread(book.threads.add, lead.project, lead.thread_id, ours)
        for one in (*others, lead):
            outcome = {**about, "reply": answered if one is lead else "covered"}
            if one is lead:
                outcome["absorbed"] = [i.message_id for i in others]
            else:
                outcome["absorbed_by"] = lead.message_id
            await asyncio.to_thread(book.instructions.end, one, status, edit=edit, outcome=outcome, reason=reason)
        log.info("%s %s; answer: %s", lead.message_id, status, answered)


def _is_open(book: Book, one: Instruction) -> bool:
    """Whether nobody has ended it: an attempt that died may have answered some."""
    now = book.instructions.find(one.project, one.message_id)
    return now is not None and not now.ended


def _send(
    book: Book,
    lead: Instruction,
    others: Sequence[Instruction],
    compose: Compose,
    status: str,
    after_all: Compose | None,
) -> str:
    """How the answer to the command line or a mail ended: sent, unknown, or none.

    An attempt that died may have told that it failed. Who then hears that it is done hears it in a mail of its own.
    """
    try:
        raw = compose(lead, others)
        correction = after_all(lead, others) if after_all is not None else b""
    except BadInput as error:  # such as an address that no mail can be written to: the work is done all the same
        log.warning("%s can't be answered: %s", lead.message_id, error)
        return "none"
    sender, about = settings().mail_from, {"project": lead.project, "thread": lead.thread_id, "status": status}
    batch = f"mail:{_name(lead)}"
    delivery = send_once(book, batch, lead.sender, raw, sender=sender, detail=about)
    if correction and delivery.detail.get("status", status) != status:
        log.warning("%s was told that it %s; it is told again", lead.message_id, delivery.detail["status"])
        delivery = send_once(book, f"{batch}:after-all", lead.sender, correction, sender=sender, detail=about)
    if delivery.state == "failed":
        log.warning("the answer to %s was not taken: %s", lead.message_id, delivery.reason)
    return REPLY.get(delivery.state, "unknown")


def _name(lead: Instruction) -> str:
    """What its answer goes by: one that a person wanted tried once more is answered once more."""
    return f"{lead.message_id}:again{lead.reopened}" if lead.reopened else lead.message_id


def _envelope(one: Instruction) -> Envelope:
    site = one.reached or f"{one.project}+{one.user}@{settings().domain}"
    return Envelope(one.sender, one.subject, one.mail_id, tuple(one.references), reply_to=site)
