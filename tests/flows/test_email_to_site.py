"""A mail on its way into the book, and what its sender hears when it does not get there."""

import json
import urllib.request
import uuid
from dataclasses import replace
from typing import Any

import pytest

from blocks.site import Site
from flows.email_to_site import email_to_site, enter
from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.errors import PostroomError, Unavailable
from postroom.ledger import State, Work
from postroom.ledger.book import open_book
from postroom.mail import parse, posting
from postroom.mail.standing import standing
from postroom.mail.writing import Enclosure
from tests.flows.premises import deployed
from tests.postroom.mail.letters import PNG, multipart
from tests.postroom.media.pictures import encoded, noisy


@pytest.fixture
async def site(prefect_server: str) -> Site:
    """A site that no other test knows; its buckets are not made."""
    project = f"t{uuid.uuid4().hex[:10]}"
    found = Site(project=project, users=["owner"], domain="example.com", senders=[f"{project}@example.com"])
    await found.save(project)
    return found


def post(names: Names, site: Site, subject: str, *enclosures: Enclosure) -> tuple[str, str, str]:
    """A mail in the mail bucket; gives what the flow is called with."""
    raw = posting.draft(
        sender=site.senders[0],
        to=[f"{site.project}+owner@example.com"],
        subject=subject,
        text="Here it is.",
        attachments=enclosures,
    )
    message_id = uuid.uuid4().hex
    stored = posting.incoming(raw, message_id=message_id, region="eu-west-1")
    client("s3").put_object(Bucket=names.mail_bucket, Key=f"incoming/{message_id}", Body=stored)
    return names.mail_bucket, f"incoming/{message_id}", message_id


async def test_where_a_mail_stands_has_fresh_links_to_what_came_with_it(provisioned: Names, site: Site) -> None:
    client("s3").create_bucket(
        Bucket=Names.media_bucket(site.project, "example.com"),
        CreateBucketConfiguration={"LocationConstraint": "eu-west-1"},
    )
    photo = Enclosure("photo.png", encoded(noisy(40, 30), "PNG"))
    async with deployed("edit_site"):
        mail = post(provisioned, site, "Both", photo, Enclosure("prices.txt", b"Bread 3.20"))
        await email_to_site(*mail)
    picture, paper = standing(open_book(), mail[2])["attachments"]
    for url in (picture["avif_url"], picture["fallback_url"]):
        assert fetched(url)
    assert fetched(paper["document_url"]) == b"Bread 3.20"
    kept = open_book().instructions.find(site.project, mail[2])
    assert kept is not None
    assert "X-Amz" not in json.dumps(kept.attachments)


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:
        return bytes(answer.read())


async def test_a_trusted_sender_hears_that_the_mail_could_not_be_taken_in(
    provisioned: Names, site: Site, local_aws: str
) -> None:
    mail = post(provisioned, site, "Price list", Enclosure("prices.txt", b"Bread 3.20"))
    for _ in range(2):  # once more changes nothing
        with pytest.raises(PostroomError):
            await email_to_site(*mail)
    (answer,) = letters(local_aws, site.senders[0])
    assert answer["subject"] == "Re: Price list"
    assert "could not be carried out" in answer["text"]
    assert mail[2] in answer["text"]
    assert standing(open_book(), mail[2])["reply"] == "sent"
    again = posting.draft(sender=site.senders[0], to=[answer["headers"]["Reply-To"]], subject=answer["subject"])
    reply = parse(again)
    assert (reply.project, reply.user) == (site.project, "owner")  # who answers our answer reaches the site


@pytest.mark.parametrize(
    ("disposition", "left_out"),
    [("inline", ()), ("attachment", ("logo.png was not used: the mail says only to publish",))],
)
async def test_a_mail_that_says_only_publish_does_that_whatever_came_with_it(
    provisioned: Names, site: Site, disposition: str, left_out: tuple[str, ...]
) -> None:
    part = f'Content-Type: image/png\r\nContent-Disposition: {disposition}; filename="logo.png"\r\n\r\n'
    raw = multipart("mixed", "Content-Type: text/plain\r\n\r\nPublish, please.", part.encode() + PNG)
    letter = replace(parse(raw, message_id=uuid.uuid4().hex), project=site.project)
    book, key = open_book(), f"email:{letter.message_id}"
    book.leases.enter(key, "mail", Work("email-to-site"))
    entered = await enter.fn(book, letter, 1, [], key)
    assert (entered.kind, entered.left_out) == ("publish", left_out)


def letters(url: str, to: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/_postroom/outbox") as answer:
        return [mail for mail in json.load(answer) if mail["to"] == [to]]


async def test_a_mail_in_the_book_is_done_with_also_when_no_edit_can_be_asked_for(
    provisioned: Names, site: Site
) -> None:
    mail = post(provisioned, site, "Hours")  # there is no deployment of edit-site
    await email_to_site(*mail)
    row = open_book().leases.read(f"email:{mail[2]}")
    assert (row.state, row.outcome["asked"]) == (State.DONE, "later")
    assert standing(open_book(), mail[2])["status"] == "waiting"


async def test_a_mail_that_died_after_it_was_in_the_book_is_not_entered_twice_by_a_redrive(
    provisioned: Names, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, mail = open_book(), post(provisioned, site, "Hours")
    key = f"email:{mail[2]}"

    def die(step: str, about: str) -> None:
        if step == "entered into the book":
            raise Unavailable("killed")

    with monkeypatch.context() as killing:
        killing.setattr("flows.email_to_site.reached", die)
        with pytest.raises(Unavailable):
            await email_to_site(*mail)
    book.leases.close(key, State.FAILED, "attempts used up", only_if_free=False)
    assert standing(book, mail[2])["status"] == "waiting"
    (one,) = book.instructions.unfinished(site.project)
    book.instructions.end(one, "done")
    assert standing(book, mail[2])["status"] == "done"

    monkeypatch.setattr("flows.email_to_site.own_key", lambda key: f"{key}:r1")  # back from the dead letters
    await email_to_site(*mail)
    assert book.leases.read(f"{key}:r1").state is State.DONE
    assert [one.message_id for one in book.instructions.of_project(site.project)] == [mail[2]]
