"""A mail becomes an instruction in the book.

    may it speak? → open it → store and optimise what came with it → enter it in the book → ask for an edit

With that the mail is safe and this run is done; from then on the book owes an edit of the site.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, State

from blocks.site import Site, find_site
from flows import runs, show
from flows.desk import ask_for_edit
from flows.once import Subject, once, own_key
from flows.steps import reached
from postroom import mail
from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.errors import BadInput, PostroomError, Refused, classify
from postroom.ledger import Book, Holding, Work
from postroom.ledger.book import open_book
from postroom.ledger.desk import Asked
from postroom.ledger.instructions import Instruction
from postroom.ledger.threads import Said
from postroom.mail import answers, belongings, mailbox, trust
from postroom.mail.compose import Envelope
from postroom.mail.letter import Letter
from postroom.mail.sending import send_once
from postroom.mail.standing import entered_before
from postroom.mail.wish import wish_of
from postroom.media.bucket import BucketShelf
from postroom.media.prepare import prepare
from postroom.media.result import MediaFile, MediaResult
from postroom.media.store import MediaStore
from postroom.settings import settings

log = logging.getLogger("postroom.flows")


@flow(name="email-to-site", flow_run_name="mail {message_id}", retries=0)
async def email_to_site(bucket: str, key: str, message_id: str) -> dict[str, Any] | State[Any]:
    """Enter a mail that arrived in the mail bucket into the book, and ask for an edit of its site."""
    key_in_book = own_key(f"email:{message_id}")
    subject = Subject(
        key_in_book,
        "mail",
        "Mail",
        f"MAIL#{message_id}",
        Work("email-to-site", {"bucket": bucket, "key": key, "message_id": message_id}),
    )
    arrival = Arrival(bucket, key, message_id, key_in_book)
    try:
        return await once(subject, arrival.receive, on_failure=arrival.apologise)
    except Refused as refused:
        return Completed(name="Refused", message=str(refused))


class Arrival:
    """One mail on its way into the book; `trusted` once its sender is known to be who may speak."""

    def __init__(self, bucket: str, key: str, message_id: str, key_in_book: str) -> None:
        self.bucket, self.key, self.message_id, self.key_in_book = bucket, key, message_id, key_in_book
        self.book = open_book()
        self.trusted: Letter | None = None

    async def receive(self, holding: Holding) -> dict[str, Any]:
        """What becomes of the mail; Refused when it may not speak."""
        letter = None
        try:
            raw, received_at = await asyncio.to_thread(mailbox.fetch, self.bucket, self.key)
            letter = await read_outside(raw, self.message_id)
            site = await recognise(letter)
            letter = await open_letter(raw, self.message_id)
        except PostroomError as error:
            if not error.retryable:
                await self.set_aside(letter, error)
            raise
        self.trusted = letter
        reached("recognised", site.project)
        await runs.introduce(
            f"{letter.project}/{letter.user}: {letter.subject}", (f"site:{letter.project}/{letter.user}", "job:mail")
        )
        await show.letter(letter)
        media = await prepare_attachments(letter, site)
        await show.attachments(letter, media)
        reached("attachments prepared", site.project)
        holding.check()
        instruction = await enter(self.book, letter, received_at, media, self.key_in_book)
        reached("entered into the book", site.project)
        asked = None if site.paused or instruction.ended else await self.ask(instruction)
        reached("edit asked for", site.project)
        return {
            "instruction": instruction.message_id,
            "project": instruction.project,
            "user": instruction.user,
            "thread_id": instruction.thread_id,
            "asked": asked.answer if asked else "paused" if site.paused else "later",
            "edit": asked.edit_key if asked else "",
            "attachments": len(media),
            "media_bucket": Names.media_bucket(site.project, site.domain),
        }

    async def ask(self, instruction: Instruction) -> Asked | None:
        """Ask for an edit; if that fails the mail is safe all the same, for the book owes one, and asks itself."""
        try:
            return await ask_for_edit(self.book, instruction)
        except Exception as error:
            log.warning("an edit could not be asked for, the book owes it: %s", classify(error))
            return None

    # when it does not come into the book

    async def set_aside(self, letter: Letter | None, error: PostroomError) -> None:
        """Quarantine the mail; tell a sender who is genuine but not on the list, once."""
        code = str(error.details.get("code") or error.category)
        document = answers.reason_document(self.message_id, code=code, reason=str(error), letter=letter)
        await asyncio.to_thread(mailbox.quarantine, self.bucket, self.key, self.message_id, document)
        log.warning("put aside: %s", error)
        if letter is not None and error.details.get("may_answer"):
            project = str(letter.project)
            await self.answer(letter, partial(answers.refused, project=project), f"mail:{self.message_id}", "refused")

    async def apologise(self, holding: Holding, error: PostroomError) -> None:
        """Tell a sender whom we trust that the mail failed; nobody else, and not when the book has it after all."""
        letter = self.trusted
        if letter is None or letter.project is None:
            return
        if await asyncio.to_thread(self.book.instructions.find, letter.project, self.message_id) is not None:
            return  # it will be carried out
        words = partial(answers.failed, reference=self.message_id, why=error.safe_message)
        try:
            await self.answer(letter, words, f"mail:{self.message_id}:failed", "failed")
        except PostroomError as trouble:  # the failure itself must still be written down
            log.warning("the sender could not be told: %s", trouble)

    async def answer(self, letter: Letter, words: Callable[..., bytes], batch: str, about: str) -> None:
        sender = settings().mail_from
        try:
            raw = words(envelope := Envelope.of(letter), sender=sender)
        except (BadInput, Refused) as error:
            log.warning("this mail can't be answered: %s", error)
            return
        await asyncio.to_thread(send_once, self.book, batch, envelope.to, raw, sender=sender, detail={"about": about})


@task(name="read the outside", cache_policy=NO_CACHE, retries=0)
async def read_outside(raw: bytes, message_id: str) -> Letter:
    """The letter, unopened: who may speak is known before a stranger's text and attachments cost anything."""
    return await asyncio.to_thread(mail.outside, raw, message_id=message_id, **_terms())


@task(name="open the letter", cache_policy=NO_CACHE, retries=0)
async def open_letter(raw: bytes, message_id: str) -> Letter:
    """The letter, opened."""
    most = settings().mail_max_attachments
    letter = await asyncio.to_thread(mail.parse, raw, message_id=message_id, max_attachments=most, **_terms())
    for warning in letter.warnings:
        log.warning("%s", warning)
    return letter


def _terms() -> dict[str, Any]:
    s = settings()
    return {"max_bytes": s.mail_max_bytes, "ours": s.mail_from, "receiving_host": s.receiving_host}


async def recognise(letter: Letter) -> Site:
    """The site this letter may speak to; Refused when there is none or it may not."""
    if letter.project is None or letter.user is None:
        raise Refused("no recipient of this mail is a site: wanted project+user@…", code="no-site")
    site = await find_site(letter.project)
    if site is None or letter.user not in site.users:
        raise Refused(f"there is no site {letter.project}+{letter.user}", code="unknown-site")
    decision = trust.may_speak(letter, site.senders, receiving_host=settings().receiving_host)
    if not decision.allowed:
        raise Refused(decision.reason, code=decision.code, may_answer=decision.may_answer)
    return site


@task(name="prepare attachments", cache_policy=NO_CACHE, retries=0)
async def prepare_attachments(letter: Letter, site: Site) -> list[MediaResult]:
    """What came with the letter, as web media in the site's bucket."""
    files = await asyncio.to_thread(_decoded, letter)
    if not files:
        return []
    store = MediaStore(BucketShelf(client("s3"), Names.media_bucket(site.project, site.domain)))
    return await prepare(files, store, message_id=letter.message_id)


def _decoded(letter: Letter) -> list[MediaFile]:
    return [MediaFile(a.filename, a.content, a.original_filename) for a in letter.attachments]


@task(name="enter into the book", cache_policy=NO_CACHE, retries=0)
async def enter(
    book: Book, letter: Letter, received_at: int, media: list[MediaResult], key_in_book: str
) -> Instruction:
    """The instruction as it stands in the book: once, however often this runs."""
    if (entered := await asyncio.to_thread(entered_before, book, letter.message_id, key_in_book)) is not None:
        log.info("the attempt before this one got as far as the book")
        return entered
    assert letter.project is not None
    assert letter.user is not None
    assert letter.from_ is not None
    envelope = Envelope.of(letter)
    before = await asyncio.to_thread(book.instructions.find, letter.project, letter.message_id)
    # what is still waiting is not entered a second time; what has ended is, when it shall be done once more
    known_as = key_in_book.removeprefix("email:") if before is not None and before.ended else letter.message_id
    brought = await asyncio.to_thread(belongings.of, letter)
    signed = (letter.from_name, letter.from_.partition("@")[0])
    kind = wish_of(letter.instruction, subject="" if brought else letter.subject, signed=signed)
    # a mail that says only "publish" does just that, and says that nothing else was done
    unused = [f"{one.filename} was not used: the mail says only to {kind}" for one in brought if kind != "edit"]
    instruction = Instruction(
        project=letter.project,
        message_id=known_as,
        user=letter.user,
        thread_id=letter.thread_id,
        received_at=received_at,
        sender=letter.from_,
        subject=letter.subject,
        text=letter.instruction,
        forwarded=letter.forwarded,
        kind=kind,
        mail_id=envelope.mail_id,
        references=envelope.references,
        reached=envelope.reply_to,
        attachments=tuple(result.as_json() for result in media if result.used),
        left_out=(*unused, *(result.error for result in media if result.error and kind == "edit")),
    )
    said = Said(letter.message_id, received_at, letter.from_, letter.instruction)
    await asyncio.to_thread(book.threads.add, letter.project, letter.thread_id, said)
    if not await asyncio.to_thread(book.instructions.enter, instruction, noted_on=key_in_book):
        log.info("this mail is in the book already")
    return instruction
