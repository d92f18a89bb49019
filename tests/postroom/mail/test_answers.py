"""Our answers, read back with the standard library's parser as a mail program would."""

import email
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import Refused
from postroom.mail import answers, parse
from postroom.mail.answers import Done, Earlier
from postroom.mail.compose import MAX_REFERENCES, Envelope, answer, answer_subject
from postroom.mail.trust import may_speak
from tests.postroom.mail.letters import PNG, SITE, raw, received

OURS = "Post room <postroom@example.com>"
TO = Envelope("owner@example.com", "Opening hours", "second@example.com", ("first@example.com",), "Owner")
EVIL = '<script>alert("x")</script><img src=https://attacker.example/x.png>\r\nBcc: victim@example.net'


def opened(mail: bytes) -> EmailMessage:
    message = email.message_from_bytes(mail, policy=policy.default)
    assert isinstance(message, EmailMessage)
    assert not message.defects
    return message


def bodies(mail: bytes) -> tuple[str, str]:
    message = opened(mail)
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    assert html is not None
    return plain.get_content(), html.get_content()


def test_an_answer_is_in_the_thread_and_marked_as_automatic() -> None:
    mail = opened(answers.done(TO, Done("Done."), sender=OURS))
    assert mail["From"] == OURS
    assert mail["To"] == "Owner <owner@example.com>"
    assert mail["Subject"] == "Re: Opening hours"
    assert mail["In-Reply-To"] == "<second@example.com>"
    assert mail["References"] == "<first@example.com> <second@example.com>"
    assert mail["Auto-Submitted"] == "auto-replied"
    assert mail["X-Postroom-Loop"] == "postroom@example.com"


def test_an_answer_belongs_to_the_same_thread_as_the_mail() -> None:
    letter = parse(raw())
    reply = answers.done(Envelope.of(letter), Done("Done."), sender=OURS)
    assert parse(reply).thread_id == letter.thread_id


def test_a_message_id_without_brackets_is_answered_in_its_thread_too() -> None:
    letter = parse(raw("Message-ID: first@example.com"))
    reply = answers.done(Envelope.of(letter), Done("Done."), sender=OURS)
    assert opened(reply)["In-Reply-To"] == "<first@example.com>"
    assert parse(reply).thread_id == letter.thread_id


def test_who_answers_an_answer_writes_to_the_address_that_the_first_mail_reached() -> None:
    letter = parse(received(raw("To: somebody@example.com, garden+owner@post.example.com")))
    assert opened(answers.done(Envelope.of(letter), Done("Done."), sender=OURS))["Reply-To"] == letter.reached == SITE
    assert opened(answers.done(TO, Done("Done."), sender=OURS))["Reply-To"] is None


def test_an_answer_tells_everything_in_text_and_html() -> None:
    told = Done(
        "The opening hours are new.",
        edit_url="https://edit.garden.example.com/hours/",
        pages=["/hours/", "/"],
        left_out=["huge.png: more pixels than allowed"],
        absorbed=[Earlier("Roses", "Put a rose on the first page.")],
        questions=["Is Monday right?"],
        remarks=["The text was put onto the site as written."],
    )
    for body in bodies(answers.done(TO, told, sender=OURS)):
        for words in (
            "The opening hours are new.",
            "https://edit.garden.example.com/hours/",
            "/hours/",
            "huge.png: more pixels than allowed",
            "Roses: Put a rose on the first page.",
            "Is Monday right?",
            "as written",
            "publish",
            "undo",
        ):
            assert words in body


def test_a_screenshot_is_shown_inside_the_html() -> None:
    mail = answers.done(TO, Done("Done.", screenshot=PNG), sender=OURS)
    assert 'src="cid:page@postroom"' in bodies(mail)[1]
    letter = parse(mail)
    assert [(a.content_id, a.inline, a.content) for a in letter.attachments] == [("page@postroom", True, PNG)]


def test_an_unfinished_edit_is_said_to_be_so_and_offers_nothing_to_publish() -> None:
    for body in bodies(answers.done(TO, Done("Half.", edit_url="https://e.example.com/", finished=False), sender=OURS)):
        assert "not finished" in body
        assert "publish" not in body
        assert "https://e.example.com/" not in body


def test_after_publishing_the_link_leads_to_the_public_site() -> None:
    told = Done("Published.", edit_url="https://edit.example.com/", published_url="https://garden.example.com/")
    text, _ = bodies(answers.done(TO, told, sender=OURS))
    assert "https://garden.example.com/" in text
    assert "https://edit.example.com/" not in text


def test_words_of_others_are_escaped_everywhere() -> None:
    told = Done(EVIL, pages=[EVIL], left_out=[EVIL], absorbed=[Earlier(EVIL, EVIL)], questions=[EVIL], remarks=[EVIL])
    mail = answers.done(TO, told, sender=OURS)
    _, html = bodies(mail)
    assert "<script" not in html
    assert "<img" not in html
    assert "Bcc" not in opened(mail)


def test_a_link_that_is_none_is_not_written() -> None:
    told = Done("The hours are new.", edit_url='javascript:alert(1)//"')
    for body in bodies(answers.done(TO, told, sender=OURS)):
        assert "The hours are new." in body
        assert "javascript:" not in body


@pytest.mark.parametrize(
    "subject", [EVIL, "a\r\nBcc: victim@example.net", "a\nX: y", "a\u2028b", "ü" * 400, "=?utf-8?Q?x?="]
)
def test_a_subject_can_not_add_headers(subject: str) -> None:
    mail = opened(answer(Envelope("owner@example.com", subject), sender=OURS, text="x"))
    assert mail.keys().count("Subject") == 1
    assert "Bcc" not in mail
    assert "X" not in mail
    assert "\n" not in mail["Subject"]


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60), st.lists(st.text(max_size=40), max_size=3))
def test_nothing_a_sender_writes_adds_a_header(subject: str, name: str, mail_id: str, ids: list[str]) -> None:
    envelope = Envelope("owner@example.com", subject, mail_id, tuple(ids), name)
    head = answer(envelope, sender=OURS, text="x").partition(b"\r\n\r\n")[0].decode("ascii")
    known = {"From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted",
             "X-Postroom-Loop", "X-Auto-Response-Suppress", "Content-Type", "Content-Transfer-Encoding",
             "MIME-Version"}  # fmt: skip
    lines = [line for line in head.split("\r\n") if not line.startswith(" ")]
    assert {line.partition(":")[0] for line in lines} <= known
    assert not set(head.replace("\r\n", "")) & set("\r\n\0")


@pytest.mark.parametrize("subject", ["Hours", "Re: Hours", "RE: re: Hours", "AW: Re[2]: Hours", "SV: Hours"])
def test_re_is_written_once(subject: str) -> None:
    assert answer_subject(subject) == "Re: Hours"


def test_a_long_conversation_keeps_its_first_id() -> None:
    ids = [f"<{n}@example.com>" for n in range(200)]
    envelope = Envelope.of(parse(raw("References: " + " ".join(ids))))
    reply = parse(answer(envelope, sender=OURS, text="x"))
    written = reply.values("References")[0].split()
    assert (written[0], written[-1], len(written)) == ("<0@example.com>", "<first@example.com>", MAX_REFERENCES)


def test_mail_that_nobody_wrote_has_no_envelope() -> None:
    with pytest.raises(Refused, match="never answered"):
        Envelope.of(parse(raw("Auto-Submitted: auto-replied")))
    with pytest.raises(Refused, match="nobody to answer"):
        Envelope.of(parse(raw("From: a@example.com", "From: b@example.com")))


def test_a_failure_is_friendly_and_has_a_reference_and_no_secrets() -> None:
    mail = answers.failed(
        TO, sender=OURS, reference="edit:garden:7", why="It took too long. token AKIAABCDEFGHIJKLMNOP"
    )
    for body in bodies(mail):
        assert "edit:garden:7" in body
        assert "It took too long." in body
        assert "AKIA" not in body


def test_a_refusal_names_the_address_and_the_site() -> None:
    for body in bodies(answers.refused(TO, sender=OURS, project="garden")):
        assert "owner@example.com" in body
        assert "garden" in body


def test_the_reason_beside_a_quarantined_mail_says_why_and_what_was_claimed() -> None:
    letter = parse(received(dmarc="fail"), message_id="stored-1")
    decision = may_speak(letter, ["owner@example.com"])
    at = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    document = answers.reason_document(
        "stored-1", code=decision.code, reason=decision.reason, letter=letter, decision=decision, at=at
    )
    assert document == {
        "message_id": "stored-1",
        "at": "2026-03-02T09:00:00.000Z",
        "code": "dmarc",
        "reason": "The sender could not be confirmed (dmarc=fail).",
        "may_answer": False,
        "claims": {
            "from": "owner@example.com",
            "to": ["garden+owner@post.example.com"],
            "subject": "Opening hours",
            "project": "garden",
            "user": "owner",
            "authentication": {"spf": "pass", "dkim": "pass", "dmarc": "fail", "spam": "pass", "virus": "pass"},
            "warnings": [],
        },
    }


def test_the_reason_for_a_mail_that_could_not_be_read_has_no_claims() -> None:
    document = answers.reason_document("stored-1", code="unparsable", reason="this is not a mail")
    assert (document["code"], document["claims"]) == ("unparsable", {})
