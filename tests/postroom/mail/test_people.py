"""Senders, recipients, sites."""

import pytest

from postroom.mail import parse
from tests.postroom.mail.letters import raw


@pytest.mark.parametrize(
    ("written", "address", "name"),
    [
        ("owner@example.com", "owner@example.com", ""),
        ("Owner <Owner.Name@EXAMPLE.COM>", "Owner.Name@example.com", "Owner"),
        ('"Last, First" <a@example.com>', "a@example.com", "Last, First"),
        ("=?utf-8?B?SsO8cmdlbg==?= <j@example.com>", "j@example.com", "Jürgen"),
        ("Jürgen <j@example.com>", "j@example.com", "Jürgen"),
        ("a@example.com (Comment Name)", "a@example.com", "Comment Name"),
        ("Folded\r\n Name\r\n <a@example.com>", "a@example.com", "Folded Name"),
        ("<a@example.com>", "a@example.com", ""),
    ],
)
def test_the_sender_is_read(written: str, address: str, name: str) -> None:
    letter = parse(raw(f"From: {written}"))
    assert (letter.from_, letter.from_name, letter.from_problem) == (address, name, None)


def test_line_breaks_inside_an_address_do_not_reach_anyone() -> None:
    letter = parse(
        raw("To: =?utf-8?Q?garden+owner=40post.example.com=0D=0ABcc:_x=40example.net?=", "Cc: a\r\n @example.com")
    )
    for address in [*letter.to, *letter.cc]:
        assert "\r" not in address
        assert "\n" not in address


def test_group_addresses_give_their_members() -> None:
    letter = parse(raw("To: Friends: a@example.com, B <b@example.com>;, c@example.com", "Cc: undisclosed-recipients:;"))
    assert letter.to == ["a@example.com", "b@example.com", "c@example.com"]
    assert letter.cc == []


def test_a_missing_sender_is_a_warning() -> None:
    letter = parse(raw(skip=("from",)))
    assert letter.from_ is None
    assert any("no sender" in warning for warning in letter.warnings)


@pytest.mark.parametrize("date", ["Date: yesterday", "Date: Mon, 99 Foo 2026 25:61:61 +9999", "Date: \r\n"])
def test_an_unreadable_date_is_null_with_a_warning(date: str) -> None:
    letter = parse(raw(date))
    assert letter.date is None
    assert any("Date" in warning for warning in letter.warnings)


def site(*header: str) -> tuple[str | None, str | None]:
    letter = parse(raw(*header))
    return letter.project, letter.user


def test_the_site_is_the_one_the_receiving_host_names() -> None:
    top = (
        "Received: from a (a [192.0.2.1]) by b with SMTP id 1 for shop+jane@post.example.com; 2 Mar 2026 09:00:00 +0000"
    )
    assert parse((top + "\r\n").encode() + raw()).project == "shop"
    assert parse((top + "\r\n").encode() + raw()).user == "jane"


def test_a_received_line_further_down_names_nothing() -> None:
    lines = (
        b"Received: from a by b; Mon, 2 Mar 2026 09:00:00 +0000\r\nReceived: from c by d for <evil+x@example.com>;\r\n"
    )
    letter = parse(lines + raw())
    assert (letter.project, letter.user) == ("garden", "owner")


def test_words_of_the_sender_about_delivery_name_no_site() -> None:
    assert site("Delivered-To: evil+x@example.com", "X-Original-To: evil+x@example.com") == ("garden", "owner")


def test_the_first_such_address_in_to_and_cc_names_the_site() -> None:
    assert site("To: a@example.com, b@example.com", "Cc: Shop+Jane@post.example.com") == ("shop", "jane")


@pytest.mark.parametrize(
    "address",
    ["garden@example.com", "+x@example.com", "-a+b@example.com", "a+b+c@example.com", "gar.den+x@example.com",
     "g" * 64 + "+x@example.com", "a+@example.com", "ä+b@example.com"],
)  # fmt: skip
def test_other_addresses_name_no_site_and_parsing_still_succeeds(address: str) -> None:
    assert site(f"To: {address}") == (None, None)
