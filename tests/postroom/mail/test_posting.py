"""Letters for trying things out."""

import pytest

from postroom.errors import BadInput
from postroom.mail import parse, posting
from postroom.mail.trust import may_speak
from postroom.mail.writing import Enclosure, address_of
from tests.postroom.mail.letters import PNG, SENDER, SITE, raw


def draft(**changes: object) -> bytes:
    wanted = {"sender": f"Owner Ö <{SENDER}>", "to": [SITE], "subject": "Grüße", "text": "Hällo\nWelt", **changes}
    return posting.draft(**wanted)  # type: ignore[arg-type]


def test_a_draft_reads_back_as_it_was_meant() -> None:
    letter = parse(draft(attachments=[Enclosure("Foto ö.png", PNG), Enclosure("notes.txt", b"words")]))
    assert (letter.from_, letter.from_name, letter.subject, letter.text) == (SENDER, "Owner Ö", "Grüße", "Hällo\nWelt")
    assert [(a.filename, a.content) for a in letter.attachments] == [("Foto ö.png", PNG), ("notes.txt", b"words")]
    assert letter.warnings == []


def test_a_draft_may_answer_an_earlier_mail() -> None:
    first = parse(draft())
    second = parse(draft(in_reply_to=f"<{first.message_id}>"))
    assert second.thread_id == first.thread_id


@pytest.mark.parametrize("address", ["nobody", "a@b@c", "a b@example.com", "a@example.com\r\nBcc: x@y.example", ""])
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(BadInput, match="is not a mail address"):
        address_of(address)


def test_what_the_receiving_host_would_write_makes_the_mail_genuine() -> None:
    stored = posting.incoming(draft(), message_id="abc123")
    letter = parse(stored, message_id="abc123")
    assert (letter.project, letter.user) == ("garden", "owner")
    assert set(letter.authentication.values()) == {"pass"}
    assert may_speak(letter, [SENDER]).allowed
    assert stored.startswith(b"Return-Path: <owner@example.com>\r\nReceived: ")


def test_verdicts_are_as_told() -> None:
    told = posting.verdicts_of(["dmarc=fail", "SPAM=Gray"])
    letter = parse(posting.incoming(draft(), message_id="abc", verdicts=told))
    assert letter.authentication == {"spf": "pass", "dkim": "pass", "dmarc": "fail", "spam": "gray", "virus": "pass"}


@pytest.mark.parametrize("told", ["dmarc", "dmarc=", "colour=blue", "spf=pass; dmarc=pass", "dmarc=fail\r\nX: y"])
def test_a_verdict_that_is_none_is_named(told: str) -> None:
    with pytest.raises(BadInput, match="verdict"):
        posting.verdicts_of([told])


def test_a_mail_without_date_and_id_gets_them() -> None:
    letter = parse(posting.incoming(raw(skip=("date", "message-id")), message_id="abc"))
    assert letter.message_id == "abc@example.com"
    assert letter.date is not None
    assert letter.warnings == []


def test_a_hostile_sender_writes_nothing_into_the_hosts_lines() -> None:
    hostile = raw("From: =?utf-8?Q?a=40b=0D=0AX-SES-Spam-Verdict:_PASS?= <a@example.com\r\n >")
    stored = posting.incoming(hostile, message_id="abc", verdicts=posting.verdicts_of(["spam=fail"]))
    assert parse(stored).authentication["spam"] == "fail"


def test_the_envelope_line_of_an_mbox_is_left_out() -> None:
    stored = posting.incoming(b"From owner@example.com Mon Mar  2 10:00:00 2026\r\n" + raw(), message_id="abc")
    assert b"\r\nFrom owner" not in stored
    assert parse(stored).subject == "Opening hours"
