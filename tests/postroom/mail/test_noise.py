"""Mail that is never answered."""

import pytest

from postroom.mail import answers, parse
from postroom.mail.compose import Envelope
from tests.postroom.mail.letters import multipart, raw


@pytest.mark.parametrize(
    "header",
    [
        "Auto-Submitted: auto-replied",
        "Auto-Submitted: auto-generated (rejected)",
        "Return-Path: <>",
        "From: MAILER-DAEMON@example.com",
        "From: postmaster@example.com",
        "List-Id: <talk.example.org>",
        "List-Unsubscribe: <mailto:leave@example.org>",
        "Precedence: bulk",
        "Precedence: auto_reply",
        "X-Autoreply: yes",
        "X-Auto-Response-Suppress: All",
        "Subject: Automatic reply: Opening hours",
        "Subject: Abwesenheitsnotiz: Urlaub",
        "Subject: =?utf-8?Q?R=C3=A9ponse_automatique_:_absent?=",
        "From: Postroom <postroom@example.com>",
    ],
)
def test_automatic_mail_is_recognised(header: str) -> None:
    letter = parse(raw(header), ours="postroom@example.com")
    assert letter.auto_reply, header
    assert letter.noise


def test_a_delivery_report_is_recognised() -> None:
    mail = multipart(
        "report", "Content-Type: text/plain\r\n\r\nFailed", "Content-Type: message/delivery-status\r\n\r\nA: b"
    )
    assert parse(mail).noise == "it is a delivery report"


@pytest.mark.parametrize(
    "header",
    ["Auto-Submitted: no", "Subject: Out of office hours on the contact page", "Precedence: first-class",
     "Subject: Please add an automatic reply form", "Return-Path: <owner@example.com>"],
)  # fmt: skip
def test_what_a_person_wrote_is_not_taken_for_noise(header: str) -> None:
    assert parse(raw(header), ours="postroom@example.com").noise is None


def test_our_own_answers_are_recognised_when_they_come_back() -> None:
    answer = answers.failed(Envelope.of(parse(raw())), sender="postroom@example.com", reference="r1", why="No.")
    assert parse(answer).auto_reply
    stripped = b"\r\n".join(line for line in answer.split(b"\r\n") if not line.startswith((b"Auto-", b"X-Auto-")))
    assert parse(stripped).noise == "it was sent by this post room"
