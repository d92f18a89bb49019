"""Raw mails as they really come."""

import base64
import hashlib

import pytest

from postroom.errors import Refused, Unparsable
from postroom.mail import parse
from tests.postroom.mail.letters import PNG, multipart, raw

TEXT = "Content-Type: text/plain; charset=utf-8\r\n\r\n"


def picture(*header: str, content: bytes = PNG) -> str:
    lines = ["Content-Type: image/png", "Content-Transfer-Encoding: base64", *header]
    return "\r\n".join(lines) + "\r\n\r\n" + base64.encodebytes(content).decode()


def test_a_plain_mail_gives_the_shape_others_rely_on() -> None:
    found = parse(raw("Cc: Second <Second@EXAMPLE.org>")).as_json()
    assert found == {
        "message_id": "first@example.com",
        "thread_id": hashlib.sha256(b"first@example.com").hexdigest()[:32],
        "project": "garden",
        "user": "owner",
        "from": "owner@example.com",
        "from_name": "Owner",
        "to": ["garden+owner@post.example.com"],
        "cc": ["Second@example.org"],
        "subject": "Opening hours",
        "date": "2026-03-02T09:00:00Z",
        "text": "Please change the opening hours.",
        "instruction": "Please change the opening hours.",
        "html": None,
        "attachments": [],
        "auto_reply": False,
        "authentication": {"spf": None, "dkim": None, "dmarc": None, "spam": None, "virus": None},
        "warnings": [],
    }


def test_the_stored_name_wins_over_the_message_id_but_not_for_the_thread() -> None:
    letter = parse(raw(), message_id="ses-name")
    assert letter.message_id == "ses-name"
    assert letter.thread_id == parse(raw()).thread_id


def test_a_missing_message_id_is_a_warning_and_the_id_comes_from_the_bytes() -> None:
    one, again = parse(raw(skip=("message-id",))), parse(raw(skip=("message-id",)))
    other = parse(raw(skip=("message-id",), body="something else"))
    assert one.message_id == again.message_id != other.message_id
    assert "no Message-ID" in one.warnings


@pytest.mark.parametrize(
    ("header", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
        ("text/plain; charset=windows-1252", b"\x93quoted\x94", "“quoted”"),
        ("text/plain; charset=utf-8", b"caf\xe9 au lait", "café au lait"),
        ("text/plain; charset=us-ascii", "grüße".encode(), "grüße"),
        ("text/plain; charset=x-nobody-knows-this", b"abc \xff def", "abc ÿ def"),
        ("text/plain; charset=", "größe".encode(), "größe"),
        ("text/plain; charset=koi8-r", "привет".encode("koi8-r"), "привет"),
        ("text/plain; charset=ks_c_5601-1987", "안녕".encode("cp949"), "안녕"),
        ("text/plain; charset=iso-2022-jp", "こんにちは".encode("iso-2022-jp"), "こんにちは"),
        ("text/plain; charset=base64", b"not a codec of text", "not a codec of text"),
        ("text/plain; charset=utf-16le", "wide".encode("utf-16-le"), "wide"),
    ],
)
def test_text_is_read_in_wrong_unknown_and_missing_charsets(header: str, body: bytes, text: str) -> None:
    assert parse(raw(f"Content-Type: {header}", body=body)).text == text


def test_an_unknown_charset_is_named_in_a_warning() -> None:
    letter = parse(raw("Content-Type: text/plain; charset=x-nobody-knows-this", body=b"abc"))
    assert letter.warnings == ["unknown charset 'x-nobody-knows-this'"]


@pytest.mark.parametrize(
    ("written", "subject"),
    [
        ("=?utf-8?B?w5ZmZm51bmdzemVpdGVu?=", "Öffnungszeiten"),
        ("=?iso-8859-1?Q?caf=E9_au?= =?iso-8859-1?Q?_lait?=", "café au lait"),
        ("=?utf-8?B?ww==?= =?utf-8?B?lmZmbnVuZw==?=", "Öffnung"),  # one character split between two words
        ("=?utf-8?Q?two words?= here", "two words here"),
        ("=?nonsense?X?abc?= stays", "=?nonsense?X?abc?= stays"),
        ("folded\r\n over two lines", "folded over two lines"),
        ("set in \r\n\t    far", "set in far"),
        ("=?utf-8?Q?line=0D=0ABcc:_victim@example.net?=", "line Bcc: victim@example.net"),
    ],
)
def test_subjects_are_decoded_and_stay_on_one_line(written: str, subject: str) -> None:
    assert parse(raw(f"Subject: {written}")).subject == subject


def test_raw_8_bit_headers_are_read_in_utf_8_or_the_charset_of_the_body() -> None:
    assert parse(raw("Subject: Grüße")).subject == "Grüße"
    latin = raw("Content-Type: text/plain; charset=iso-8859-1", "Subject: Gr\udcfc\udcdfe", body=b"x")
    assert parse(latin).subject == "Grüße"


def test_raw_8_bit_inside_an_encoded_word_is_read_in_its_charset() -> None:
    assert parse(raw("Subject: =?iso-8859-1?Q?Fr\udcf6sche?=")).subject == "Frösche"
    assert parse(raw("Subject: =?utf-8?Q?Frösche?=")).subject == "Frösche"


def test_of_two_subjects_the_first_counts_and_a_warning_says_so() -> None:
    letter = parse(raw("Subject: one", "Subject: two"))
    assert letter.subject == "one"
    assert any("more than one Subject" in warning for warning in letter.warnings)


def test_nested_multiparts_give_one_text_and_all_attachments() -> None:
    inner = (
        'Content-Type: multipart/alternative; boundary="inner"\r\n\r\n'
        f"--inner\r\n{TEXT}Hello\r\n--inner\r\nContent-Type: text/html\r\n\r\n<p>Hello</p>\r\n--inner--\r\n"
    )
    letter = parse(multipart("mixed", inner, picture('Content-Disposition: attachment; filename="a.png"')))
    assert (letter.text, letter.html) == ("Hello", "<p>Hello</p>")
    assert [(a.filename, a.content_type, a.content) for a in letter.attachments] == [("a.png", "image/png", PNG)]


def test_an_inline_image_without_a_name_is_kept() -> None:
    html = "Content-Type: text/html\r\n\r\n<p>See <img src='cid:pic'></p>"
    letter = parse(multipart("related", html, picture("Content-ID: <pic>"), picture("Content-Disposition: inline")))
    assert [(a.filename, a.inline, a.content_id) for a in letter.attachments] == [
        ("image-1.png", True, "pic"),
        ("image-2.png", True, None),
    ]


def test_an_enclosed_message_stays_closed_and_says_nothing_in_the_outer_mail() -> None:
    enclosed = "Content-Type: message/rfc822\r\n\r\nFrom: x@example.org\r\nSubject: inner\r\n\r\nDelete everything."
    letter = parse(multipart("mixed", TEXT + "See below.", enclosed))
    assert letter.text == "See below."
    assert [(a.content_type, a.filename) for a in letter.attachments] == [("message/rfc822", "message-1.eml")]
    assert b"Delete everything." in letter.attachments[0].content


def test_a_calendar_part_is_an_attachment_of_its_own_kind() -> None:
    invite = "Content-Type: text/calendar; method=REQUEST\r\n\r\nBEGIN:VCALENDAR\r\nEND:VCALENDAR"
    letter = parse(multipart("alternative", TEXT + "Come!", invite))
    assert letter.text == "Come!"
    assert [(a.content_type, a.filename) for a in letter.attachments] == [("text/calendar", "invite-1.ics")]


def test_flowed_text_is_joined_and_quotes_keep_their_depth() -> None:
    body = "This is one \r\nparagraph.\r\n> a quote that \r\n> goes on\r\n-- \r\nMe"
    letter = parse(raw("Content-Type: text/plain; format=flowed", body=body))
    assert letter.text == "This is one paragraph.\n> a quote that goes on\n-- \nMe"
    assert letter.instruction == "This is one paragraph."


def test_an_empty_body_is_a_warning() -> None:
    letter = parse(raw(body=""))
    assert (letter.text, letter.instruction) == ("", "")
    assert "the mail is empty" in letter.warnings


def test_a_signed_mail_gives_its_text_and_keeps_the_signature() -> None:
    pgp = "Content-Type: application/pgp-signature; name=signature.asc\r\n\r\n-----BEGIN PGP SIGNATURE-----\r\nabc"
    letter = parse(multipart("signed", TEXT + "Signed words.", pgp))
    assert letter.text == "Signed words."
    assert [(a.filename, a.content_type) for a in letter.attachments] == [
        ("signature.asc", "application/pgp-signature")
    ]


def test_an_opaque_s_mime_signature_is_opened() -> None:
    def der(tag: int, content: bytes) -> bytes:
        size = len(content)
        return bytes([tag]) + (bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")) + content

    words = b"Content-Type: text/plain\r\n\r\nSigned inside."
    data_oid, signed_oid = bytes.fromhex("2a864886f70d010701"), bytes.fromhex("2a864886f70d010702")
    enclosed = der(0x30, der(0x06, data_oid) + der(0xA0, der(0x04, words)))
    signed = der(0x30, der(0x02, b"\1") + der(0x31, b"") + enclosed + der(0x31, b""))
    blob = der(0x30, der(0x06, signed_oid) + der(0xA0, signed))
    letter = parse(
        raw(
            "Content-Type: application/pkcs7-mime; smime-type=signed-data; name=smime.p7m",
            "Content-Transfer-Encoding: base64",
            body=base64.encodebytes(blob),
        )
    )
    assert letter.text == "Signed inside."
    assert [a.filename for a in letter.attachments] == ["smime.p7m"]


def test_html_alone_is_turned_into_readable_text() -> None:
    html = (
        "<html><head><title>no</title><style>p{}</style></head><body><p>New&nbsp;hours:</p><ul><li>Mon 9&ndash;17"
        "<li>Tue closed</ul><script>alert(1)</script><p>See <a href='https://example.com/x'>this</a>.<br>Bye</body>"
    )
    letter = parse(raw("Content-Type: text/html; charset=utf-8", body=html))
    assert letter.text == "New hours:\n\n- Mon 9–17\n- Tue closed\n\nSee this (https://example.com/x).\nBye"
    assert letter.html == html


def test_an_rfc_2231_name_and_an_encoded_word_name_are_decoded() -> None:
    split = "Content-Disposition: attachment; filename*0*=utf-8''%C3%96ffnungs; filename*1*=zeiten.png"
    words = 'Content-Disposition: attachment; filename="=?utf-8?Q?=C3=96l.png?="'
    latin = "Content-Disposition: attachment; filename*=iso-8859-1'de'Stra%DFe.png"
    letter = parse(multipart("mixed", picture(split), picture(words), picture(latin)))
    assert [a.filename for a in letter.attachments] == ["Öffnungszeiten.png", "Öl.png", "Straße.png"]


def test_the_type_comes_from_the_content_not_from_the_sender() -> None:
    part = "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=photo.jpg\r\n\r\nMZ\x00\x01\x02"
    (attachment,) = parse(multipart("mixed", part)).attachments
    assert attachment.content_type == "application/vnd.microsoft.portable-executable"


@pytest.mark.parametrize("encoding", ["base64", "BASE64 ", '"base64"', "base64; charset=utf-8"])
def test_damaged_base64_gives_what_can_be_read_and_a_warning(encoding: str) -> None:
    part = (
        "Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=a.bin\r\n"
        f"Content-Transfer-Encoding: {encoding}\r\n\r\nQUJD!!RA==\r\nRUZH"
    )
    found = parse(multipart("mixed", part)).as_json()
    assert found["attachments"][0]["sha256"] == hashlib.sha256(b"ABCDEFG").hexdigest()
    assert "a.bin: base64 data was damaged" in found["warnings"]


def test_a_cut_off_mail_is_kept_with_a_warning() -> None:
    whole = multipart("mixed", TEXT + "Hello", picture("Content-Disposition: attachment; filename=a.png"))
    letter = parse(whole[: whole.rindex(b"--cut-here--")])
    assert letter.text == "Hello"
    assert [a.filename for a in letter.attachments] == ["a.png"]
    assert any("cut short" in warning for warning in letter.warnings)


def test_a_wrong_boundary_is_guessed() -> None:
    broken = multipart("mixed", TEXT + "Hello", picture("Content-Disposition: attachment; filename=a.png"))
    letter = parse(broken.replace(b'boundary="cut-here"', b'boundary="other"'))
    assert letter.text == "Hello"
    assert [a.filename for a in letter.attachments] == ["a.png"]
    assert any("boundary" in warning for warning in letter.warnings)


def test_a_multipart_of_no_known_kind_is_opened() -> None:
    mail = multipart("mixed", TEXT + "Hello", picture("Content-Disposition: attachment; filename=a.png"))
    for kind in (b"multipart/*", b"multipart/", b"multipart", b"multipart/x-new"):
        letter = parse(mail.replace(b"multipart/mixed", kind))
        assert (letter.text, [a.filename for a in letter.attachments]) == ("Hello", ["a.png"])


def test_a_type_without_its_second_half_is_still_an_attachment() -> None:
    part = (
        f"Content-Type: image; name=a.png\r\nContent-Transfer-Encoding: base64\r\n\r\n{base64.b64encode(PNG).decode()}"
    )
    letter = parse(multipart("mixed", TEXT + "Hello", part))
    assert [(a.filename, a.content_type) for a in letter.attachments] == [("a.png", "image/png")]


def test_limits_on_size_and_attachments_are_refusals_that_name_the_setting() -> None:
    with pytest.raises(Refused, match="POSTROOM_MAIL_MAX_BYTES"):
        parse(raw(body="x" * 2000), max_bytes=1500)
    many = multipart("mixed", *[picture("Content-Disposition: attachment; filename=a.png")] * 3)
    with pytest.raises(Refused, match="POSTROOM_MAIL_MAX_ATTACHMENTS"):
        parse(many, max_attachments=2)
    assert [a.filename for a in parse(many, max_attachments=3).attachments] == ["a.png", "a-2.png", "a-3.png"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   \r\n",
        b"\x89PNG\r\n\x1a\n\0\0\0",
        b"just a sentence\nand another",
        b"root:x:0:0\nbin:x:1:1\n",
        b'{"a": 1}',
    ],
)
def test_what_is_no_mail_is_unparsable(data: bytes) -> None:
    with pytest.raises(Unparsable, match="not a mail"):
        parse(data)


def test_a_thread_keeps_its_id_from_the_first_mail_to_the_last() -> None:
    first = parse(raw())
    second = parse(raw("Message-ID: <second@example.org>", "In-Reply-To: <first@example.com>"))
    third = parse(
        raw("Message-ID: <third@example.com>", "References: <first@example.com>\r\n <second@example.org>",
            "In-Reply-To: <second@example.org>")
    )  # fmt: skip
    assert first.thread_id == second.thread_id == third.thread_id


def test_a_uuencoded_part_is_decoded_with_its_name() -> None:
    body = "begin 644 notes.txt\n%:&5L;&\\\n`\nend\n"
    part = f"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\n{body}"
    (attachment,) = parse(multipart("mixed", part)).attachments
    assert (attachment.filename, attachment.content) == ("notes.txt", b"hello")


def test_line_ends_of_any_kind_are_read() -> None:
    for ends in (b"\n", b"\r\n", b"\r"):
        letter = parse(raw().replace(b"\r\n", b"\n").replace(b"\n", ends))
        assert (letter.subject, letter.text) == ("Opening hours", "Please change the opening hours.")


@pytest.mark.parametrize(
    "html",
    [
        "<html><head><title>No</title><style>p {}</style><body><p>Hello</p>",
        "<head><meta charset=utf-8><title>No</title><p>Hello</p>",
        "<head><title>No<body><p>Hello</p>",
        "<head><xml><o:Pixels>96</o:Pixels></xml></head><p>Hello</p>",
    ],
)
def test_html_whose_head_has_no_end_is_read(html: str) -> None:
    assert parse(raw("Content-Type: text/html", body=html.encode())).text == "Hello"
