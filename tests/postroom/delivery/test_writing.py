"""Notices as they are read: both parts, both times, and nothing of the change's text taken for markup."""

import copy
from html.parser import HTMLParser
from typing import Any

import pytest

from postroom.delivery.customer import Customer
from postroom.delivery.writing import KINDS, UNSUBSCRIBE, preview, render
from postroom.errors import BadInput
from tests.postroom.delivery.conftest import change

CUSTOMER = Customer(
    code="acme",
    name="Acme & Sons",
    region="eu-west-1",
    ses_role_arn="arn:aws:iam::111122223333:role/ses",
    sender="desk@example.com",
    timezone="Asia/Kolkata",
    contact_list="people",
)
MEETING = {"title": "Walk-through", "startTime": "2026-11-19T09:00", "duration": 90, "location": "Room 4"}


class Tags(HTMLParser):
    """Which elements a page has, and whether each is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "br", "!doctype"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def with_metadata(**facts: Any) -> dict[str, Any]:
    told = copy.deepcopy(change(meetingInvite=MEETING))
    told["changeMetadata"] |= facts
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_both_parts_with_title_id_and_unsubscribe_link(kind: str) -> None:
    told = with_metadata()
    subject, text, html = render(kind, told, CUSTOMER)
    assert subject.startswith(f"{KINDS[kind]}: ")
    for part in (text, html):
        assert "Move the database" in part
        assert told["changeId"] in part
        assert part.count(UNSUBSCRIBE) == 1
    assert Tags(html).open == []
    assert 'name="viewport"' in html
    assert "\n\n\n" not in text


@pytest.mark.parametrize("kind", set(KINDS) - {"meeting"})
def test_times_stand_in_the_customers_zone_and_in_utc(kind: str) -> None:
    for part in render(kind, with_metadata(), CUSTOMER)[1:]:
        assert "Fri 20 Nov 2026, 20:30 – Sat 21 Nov 2026, 03:30 Asia/Kolkata" in part
        assert "Fri 20 Nov 2026, 15:00 – 22:00 UTC" in part


def test_a_meetings_time_is_its_own() -> None:
    subject, text, html = render("meeting", with_metadata(), CUSTOMER)
    assert subject == "Invitation: Walk-through"
    for part in (text, html):
        assert "Thu 19 Nov 2026, 19:30 – 21:00 Asia/Kolkata" in part
        assert "Thu 19 Nov 2026, 14:00 – 15:30 UTC" in part
        assert "Room 4" in part


def test_a_time_across_the_end_of_summer_time_is_right_in_both() -> None:
    schedule = {"implementationStart": "2026-10-24T23:00", "implementationEnd": "2026-10-25T06:00"}
    told = with_metadata(schedule=schedule | {"timezone": "Europe/Berlin"})
    _, text, _ = render("approved", told, CUSTOMER)
    assert "Sat 24 Oct 2026, 21:00 – Sun 25 Oct 2026, 05:00 UTC" in text


def test_the_text_of_a_change_is_text_and_never_markup() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=y> {{ 7*7 }} {% raw %}"
    told = with_metadata(title=evil, implementationPlan=evil, changeReason=evil, tickets={evil: evil})
    told["emailNotification"] = {"subject": evil}
    for kind in KINDS:
        subject, text, html = render(kind, told, CUSTOMER)
        assert not {"script", "img"} & set(Tags(html).seen)
        assert "{{ 7*7 }}" in text
        assert "49" not in subject


def test_a_subject_is_one_line_of_bearable_length() -> None:
    told = with_metadata()
    told["emailNotification"] = {"subject": "Hello\r\nBcc: all@example.com\n" + "x" * 500}
    subject, _, _ = render("approved", told, CUSTOMER)
    assert "\n" not in subject
    assert "\r" not in subject
    assert len(subject) <= 200


def test_a_change_can_not_bring_its_own_unsubscribe_link_or_turn_the_writing() -> None:
    told = with_metadata(changeReason=f"a {UNSUBSCRIBE} \u202eb\x1b[2J")
    _, text, html = render("approved", told, CUSTOMER)
    assert (text.count(UNSUBSCRIBE), html.count(UNSUBSCRIBE)) == (1, 1)
    assert not {"\u202e", "\x1b"} & set(text + html)


def test_a_placeholder_inside_a_placeholder_does_not_survive_either() -> None:
    nested = f"{UNSUBSCRIBE[:10]}{UNSUBSCRIBE[:6]}{UNSUBSCRIBE}{UNSUBSCRIBE[6:]}{UNSUBSCRIBE[10:]}"
    torn = f"{UNSUBSCRIBE[:8]}\x07{UNSUBSCRIBE[8:]}"
    told = change()
    told["changeMetadata"] |= {"changeReason": nested, "testPlan": torn, "title": nested + "A title"}
    for part in render("approved", told, CUSTOMER)[1:]:
        assert part.count(UNSUBSCRIBE) == 1


def test_only_an_https_link_to_a_meeting_can_be_clicked() -> None:
    told = with_metadata()
    told["meetingInvite"] = MEETING | {"joinUrl": "javascript:alert(1)"}
    assert "javascript:" not in "".join(render("meeting", told, CUSTOMER))
    told["meetingInvite"] = MEETING | {"joinUrl": "https://meet.example.com/1"}
    assert 'href="https://meet.example.com/1"' in render("meeting", told, CUSTOMER)[2]


def test_a_bare_change_can_be_written() -> None:
    for kind in KINDS:
        subject, text, _ = render(kind, {"changeId": "c1", "version": 1, "status": "submitted"}, CUSTOMER)
        assert "Change c1" in subject
        assert "Change c1" in text


def test_an_unknown_kind_or_time_zone_is_named() -> None:
    with pytest.raises(BadInput, match="kind 'wedding'"):
        render("wedding", change(), CUSTOMER)
    with pytest.raises(BadInput, match=r"schedule: 'Mars/Olympus' is not a time zone"):
        render("approved", with_metadata(schedule={"timezone": "Mars/Olympus"}), CUSTOMER)


def test_a_preview_follows_the_status() -> None:
    assert preview(change(status="completed"), CUSTOMER)[0].startswith("Completed: ")
    assert preview(change(), CUSTOMER, "updated")[0].startswith("Updated: ")
