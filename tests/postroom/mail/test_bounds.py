"""Whatever arrives: never an exception but a refusal, never long."""

import base64
import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import Refused, Unparsable
from postroom.mail import outside, parse
from postroom.mail.trust import may_speak
from tests.postroom.mail.letters import PNG, SENDER, multipart, raw, received
from tests.postroom.mail.test_tnef import mail as with_winmail
from tests.postroom.mail.test_tnef import winmail

ALLOWED_SECONDS = 5.0  # of CPU; what is tried here takes well under one


def survives(data: bytes) -> None:
    """The mail is read, or refused, in time; what was read can be written as JSON."""
    began = time.process_time()
    try:
        found = parse(data).as_json()
        json.dumps(found, ensure_ascii=False).encode("utf-8")
        assert bool(found["instruction"].strip()) == bool(found["text"].strip())
    except (Refused, Unparsable):
        pass
    assert time.process_time() - began < ALLOWED_SECONDS


@pytest.mark.parametrize("html", ["<" * 2_000_000, "<p>x" * 400_000], ids=["no-tags", "tags"])
def test_all_the_html_of_a_mail_is_read_within_one_budget(html: str) -> None:
    part = f"Content-Type: text/html\r\n\r\n{html}"
    survives(multipart("mixed", *[part] * 15))


def test_the_outside_of_a_letter_says_the_same_as_the_letter_opened() -> None:
    mail = received(multipart("mixed", "Content-Type: text/plain\r\n\r\nHello", "Content-Type: text/html\r\n\r\n<p>x"))
    unopened, letter = outside(mail), parse(mail)
    assert (unopened.text, unopened.attachments) == ("", [])
    contents = ("text", "instruction", "html", "attachments", "warnings")
    assert [{k: v for k, v in one.as_json().items() if k not in contents} for one in (unopened, letter)] == [
        {k: v for k, v in letter.as_json().items() if k not in contents}
    ] * 2


def test_a_header_that_was_cut_may_hide_another_sender() -> None:
    letter = outside(received(raw(f"From: {SENDER}", *(f"X-{n}: a" for n in range(1100)), "From: a@b.example")))
    assert (letter.from_, letter.from_problem) == (SENDER, "the header is too large to be read as a whole")
    assert not may_speak(letter, [SENDER]).allowed


def _whole_mails() -> list[bytes]:
    text = "Content-Type: text/plain; charset=utf-8; format=flowed\r\n\r\nGrüße \r\nund so\r\n-- \r\nich"
    html = (
        "Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p a=3D'b'>caf=E9<blockquote>x"
    )
    photo = (
        'Content-Type: image/png; name="=?utf-8?Q?=C3=96l.png?="\r\nContent-Transfer-Encoding: base64\r\n'
        "Content-Disposition: attachment; filename*0*=utf-8''%C3%96; filename*1=l.png\r\nContent-ID: <a@b>\r\n\r\n"
        + base64.encodebytes(PNG).decode()
    )
    enclosed = "Content-Type: message/rfc822\r\n\r\nFrom: x@example.org\r\n\r\ninner"
    uu = "Content-Type: x/y\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nbegin 644 a.txt\r\n%:&5L;&\\\r\n`\r\nend"
    return [
        received(raw()),
        received(multipart("alternative", text, html)),
        received(multipart("mixed", text, photo, enclosed, uu)),
        received(multipart("related", html, photo)),
        multipart("signed", text, "Content-Type: application/pkcs7-signature; name=smime.p7s\r\n\r\nabc"),
        with_winmail(winmail(("a.png", PNG), text="t", long_name="long.png")),
    ]


MAILS = _whole_mails()
PIECES = [b"", b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"--cut-here", b"--cut-here--", b"=?utf-8?B?", b"?=", b"\xff",
          b'"', b"(", b"<", b">", b";", b":", b"@", b",", b"=", b"%", b"'", b"*0*=", b"Content-Type: multipart/mixed;",
          b"charset=utf-7", b"charset=idna", b"charset=punycode", b"charset=unicode_escape", b"A" * 70]  # fmt: skip
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 60), st.one_of(st.sampled_from(PIECES), st.binary(max_size=12))),
    min_size=1,
    max_size=12,
)


@given(st.sampled_from(MAILS), CHANGES)
def test_a_mail_changed_anywhere_never_raises(mail: bytes, changes: list[tuple[float, int, bytes]]) -> None:
    data = bytearray(mail)
    for where, length, piece in changes:
        at = int(where * len(data))
        data[at : at + length] = piece
    survives(bytes(data))


@given(st.binary(max_size=2000))
def test_random_bytes_never_raise(data: bytes) -> None:
    survives(data)
    survives(b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + data)


@given(st.text(max_size=300), st.sampled_from(["From", "To", "Subject", "Date", "Content-Type", "Content-Disposition",
       "Received", "Authentication-Results", "References", "Message-ID", "Content-Transfer-Encoding"]))  # fmt: skip
def test_any_text_in_any_header_never_raises(text: str, name: str) -> None:
    survives(f"{name}: {text}\r\nX: y\r\n\r\nbody".encode("utf-8", "surrogatepass"))


def _nested(depth: int) -> bytes:
    begin = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (level, level) for level in range(depth)
    )
    return b"From: a@example.com\r\n" + begin + b"\r\ndeep"


BOMBS = {
    "ten thousand levels": lambda: _nested(10_000),
    "a hundred thousand parts": lambda: multipart("mixed", *["\r\n."] * 100_000),
    "a hundred thousand header lines": lambda: raw(*["X-Line: 1"] * 100_000),
    "one header line of ten megabytes": lambda: raw("X-Long: " + "a" * 10_000_000),
    "a header of folds": lambda: raw("Subject: a" + "\r\n b" * 500_000),
    "a subject of encoded words": lambda: raw("Subject: " + "=?utf-8?Q?a?= " * 5_000),
    "a subject of open words": lambda: raw("Subject: " + "=?" * 30_000),
    "open brackets in an address": lambda: raw("To: " + "(" * 60_000),
    "open quotes in an address": lambda: raw("From: " + '"<' * 30_000),
    "a hundred thousand recipients": lambda: raw("To: " + "a@example.com," * 100_000),
    "nested groups": lambda: raw("To: " + "a:" * 30_000),
    "parameters": lambda: raw("Content-Type: text/plain; " + "a*0*=b; " * 8_000),
    "comments in verdicts": lambda: raw("Authentication-Results: " + "(" * 60_000),
    "html of open tags": lambda: raw("Content-Type: text/html", body=b"<div><a href='" * 150_000),
    "html of nested tags": lambda: raw("Content-Type: text/html", body=b"<blockquote><b>" * 150_000),
    "html of comments": lambda: raw("Content-Type: text/html", body=b"<!--" * 500_000),
    "html of entities": lambda: raw("Content-Type: text/html", body=b"&" * 1_000_000),
    "quotes": lambda: raw(body=b"> " * 1_000_000),
    "quoted lines": lambda: raw(body=b"On 2 Mar 2026 a@b.example wrote\n" * 50_000),
    "blank lines": lambda: raw(body=b"\n" * 3_000_000),
    "dashes": lambda: raw(body=b"-- \n" * 500_000),
    "short lines": lambda: raw(body=b"a\n" * 5_000_000),
    "short flowed lines": lambda: raw("Content-Type: text/plain; format=flowed", body=b"a\n" * 5_000_000),
    "short folds": lambda: raw("X-Long: a" + "\r\n b" * 2_500_000),
    "spaces": lambda: raw(body=b" " * 3_000_000 + b"x"),
    "boundaries that are none": lambda: multipart("mixed", b"--cut-herex\r\n" * 200_000),
    "soft line breaks": lambda: raw("Content-Transfer-Encoding: quoted-printable", body=b"=\r\n" * 500_000),
    "padding": lambda: raw("Content-Transfer-Encoding: base64", body=b"=" * 2_000_000),
    "padding in pieces": lambda: raw("Content-Transfer-Encoding: base64", body=b"QQ==" * 300_000),
    "uuencoded blanks": lambda: raw("Content-Transfer-Encoding: x-uuencode", body=b"begin 644 a\n" + b"`\n" * 500_000),
    "verdicts of one word": lambda: raw("Authentication-Results: amazonses.com; " + "a" * 60_000),
    "a content type of one word": lambda: raw("Content-Type: " + "a" * 60_000),
    "blanks inside a header": lambda: raw("Subject: a" + " " * 60_000 + "b\r\n c"),
    "blanks inside the last line": lambda: raw(body=b"hi\na" + b" " * 400_000 + b"b"),
    "signature marks": lambda: raw(body=b"hi\n" + b"--\n" * 150_000 + b"x"),
    "a body in punycode": lambda: raw("Content-Type: text/plain; charset=punycode", body=b"a-" + b"b" * 400_000),
    "html of closed quotes": lambda: raw("Content-Type: text/html", body=b'<a ">"' * 300_000),
    "html of ends that fit nothing": lambda: raw(
        "Content-Type: text/html", body=b"<svg>" * 150_000 + b"</math>" * 150_000
    ),
    "html of nested links": lambda: raw(
        "Content-Type: text/html", body=b"<a href=http://x>y" * 50_000 + b"</a>" * 250_000
    ),
    "an attachment of comments": lambda: raw("Content-Disposition: attachment", body=b"<!---->" * 300 + b"x"),
    "punycode": lambda: raw("From: a@" + "ü" * 5_000 + ".example"),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_stays_small(bomb) -> None:  # type: ignore[no-untyped-def]
    survives(bomb())


def test_depth_is_bounded_and_said() -> None:
    letter = parse(_nested(100))
    assert any("nested deeper" in warning for warning in letter.warnings)


def test_a_header_bomb_is_cut_and_said_and_the_mail_is_kept() -> None:
    letter = parse(raw(*["X-Line: 1"] * 5_000))
    assert (letter.subject, letter.text) == ("Opening hours", "Please change the opening hours.")
    assert any("the header was larger" in warning for warning in letter.warnings)


def test_a_very_long_field_is_cut_and_those_after_it_are_read() -> None:
    letter = parse(b"X-Long: a" + b"\r\n bbbbbbbbbb" * 100_000 + b"\r\n" + raw())
    assert (letter.subject, letter.text) == ("Opening hours", "Please change the opening hours.")
    assert any("longer than 64 KB" in warning for warning in letter.warnings)


def test_lines_in_any_order_never_raise() -> None:
    chance = random.Random(7)
    for mail in MAILS:
        lines = mail.split(b"\r\n")
        for _ in range(20):
            chance.shuffle(lines)
            survives(b"\r\n".join(lines))
