"""winmail.dat, written here byte by byte."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.mail import parse, rtf, tnef
from tests.postroom.mail.letters import PNG, multipart


def attribute(level: int, name: int, value: bytes) -> bytes:
    return struct.pack("<BII", level, name, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)


def unicode_property(name: int, text: str) -> bytes:
    data = (text + "\0").encode("utf-16-le")
    return struct.pack("<HHII", 0x001F, name, 1, len(data)) + data + b"\0" * (-len(data) % 4)


def winmail(*attachments: tuple[str, bytes], text: str = "", long_name: str = "") -> bytes:
    out = tnef.SIGNATURE + struct.pack("<H", 1) + attribute(1, 0x00069007, struct.pack("<II", 1252, 0))
    if text:
        out += attribute(1, 0x0002800C, text.encode("cp1252") + b"\0")
    for name, content in attachments:
        out += attribute(2, 0x00069002, b"\1\0" + b"\xff" * 4 + b"\0" * 8)
        out += attribute(2, 0x00018010, name.encode("cp1252") + b"\0")
        out += attribute(2, 0x0006800F, content)
        if long_name:
            out += attribute(2, 0x00069005, struct.pack("<I", 1) + unicode_property(0x3707, long_name))
    return out


def mail(data: bytes, text: str = "Hello") -> bytes:
    part = (
        "Content-Type: application/ms-tnef; name=winmail.dat\r\nContent-Transfer-Encoding: base64\r\n"
        "Content-Disposition: attachment; filename=winmail.dat\r\n\r\n" + base64.encodebytes(data).decode()
    )
    return multipart("mixed", f"Content-Type: text/plain\r\n\r\n{text}", part)


def test_winmail_dat_is_unpacked_into_its_attachments() -> None:
    letter = parse(mail(winmail(("PLAN.PDF", b"%PDF-1.7 plan"), ("grüße.txt", b"words"))))
    assert [(a.filename, a.content, a.content_type) for a in letter.attachments] == [
        ("PLAN.PDF", b"%PDF-1.7 plan", "application/pdf"),
        ("grüße.txt", b"words", "text/plain"),
    ]


def test_the_long_unicode_name_wins() -> None:
    letter = parse(mail(winmail(("LONGNA~1.PNG", PNG), long_name="Ein langer Name – groß.png")))
    assert [a.filename for a in letter.attachments] == ["Ein langer Name – groß.png"]


def test_its_body_counts_only_when_there_is_no_other() -> None:
    data = winmail(("a.png", PNG), text="Words inside")
    assert parse(mail(data)).text == "Hello"
    assert parse(mail(data, text="")).text == "Words inside"


@pytest.mark.parametrize("cut", [5, 8, 40, 80])
def test_a_damaged_one_is_kept_and_the_mail_too(cut: int) -> None:
    letter = parse(mail(winmail(("a.png", PNG))[:cut]))
    assert letter.text == "Hello"
    assert [a.filename for a in letter.attachments] == ["winmail.dat"]


# "hello world" as [MS-OXRTFCP] compresses it in its first example
HELLO = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
)


def properties(*values: bytes) -> bytes:
    return attribute(1, 0x00069003, struct.pack("<I", len(values)) + b"".join(values))


def binary_property(name: int, data: bytes) -> bytes:
    return struct.pack("<HHII", 0x0102, name, 1, len(data)) + data + b"\0" * (-len(data) % 4)


def test_a_body_that_is_only_rich_text_is_read() -> None:
    assert parse(mail(winmail() + properties(binary_property(0x1009, HELLO)), text="")).text == "hello world"
    letter = parse(mail(winmail() + properties(binary_property(0x1009, b"x" * 20)), text=""))
    assert any("rich text that could not be read" in warning for warning in letter.warnings)


def test_a_property_without_a_value_hides_none_behind_it() -> None:
    empty = struct.pack("<HH", 0x0001, 0x3000)
    letter = parse(mail(winmail() + properties(empty, unicode_property(0x1000, "Words inside")), text=""))
    assert letter.text == "Words inside"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"{\rtf1\ansi\ansicpg1251{\fonttbl{\f0 Arial;}}\f0 \'cf\'f0\'e8\par b\tab c}", "При\nb\tc"),
        (rb"{\rtf1\uc1 \u8364?\u-10179?\u-8704? {\*\generator x;}\{a\}\line\emdash}", "€😀 {a}\n—"),
        (rb"{\rtf1\fromhtml1{\*\htmltag64 <p>}Hi{\*\htmltag72 </p>}\htmlrtf\par\htmlrtf0 you}", "Hi\nyou"),
        (rb"{\rtf1 a}}}\u", "a"),
    ],
)
def test_rich_text_is_read_as_a_person_sees_it(body: bytes, text: str) -> None:
    assert rtf.to_text(body) == text


@given(st.binary(max_size=200))
def test_any_packed_rich_text_is_read_or_said_to_be_none(noise: bytes) -> None:
    for packed in (noise, HELLO[:16] + noise, b"\xff" * 8 + b"LZFu" + b"\0" * 4 + noise * 50):
        try:
            rtf.text_of(packed)
        except rtf.NotRtf:
            pass


@given(st.binary(max_size=300), st.integers(0, 400))
def test_random_bytes_are_unpacked_or_left_alone(noise: bytes, at: int) -> None:
    whole = bytearray(winmail(("a.png", PNG), ("b.txt", b"b" * 50), text="t", long_name="long"))
    at = min(at, len(whole))
    whole[at : at + len(noise)] = noise
    try:
        tnef.unpack(bytes(whole))
    except tnef.NotTnef:
        assert not bytes(whole).startswith(tnef.SIGNATURE)
