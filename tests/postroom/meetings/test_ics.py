"""Calendar files: read back by icalendar, and by the rules that Outlook has."""

import email
import email.policy
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from icalendar import Calendar

from postroom.delivery.writing import render
from postroom.meetings.ics import Method, calendar, uid_of
from postroom.meetings.invitations import mail, words
from postroom.meetings.meeting import Meeting, meeting_of
from tests.postroom.meetings.samples import INVITE, change, customer

STAMP = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)
ACORN = customer()


def written(method: Method = "REQUEST", sequence: int = 0, meeting: Meeting | None = None, **fields: Any) -> bytes:
    meeting = meeting or meeting_of(change(**fields))
    return calendar(meeting, ACORN, "ann@example.com", method=method, sequence=sequence, stamp=STAMP)


def read(content: bytes) -> tuple[Calendar, Any]:
    found = Calendar.from_ical(content)
    found.validate()
    (event,) = found.walk("VEVENT")
    assert not event.errors
    return found, event


def test_what_goes_in_comes_out() -> None:
    meeting = meeting_of(change(changeMetadata__changeReason="Old; slow, and\nbroken: \\n"))
    found, event = read(written(meeting=meeting))
    assert event.start == meeting.start
    assert event.end - event.start == timedelta(minutes=90)
    assert str(event["SUMMARY"]) == "Cut-over"
    assert str(event["LOCATION"]) == "Microsoft Teams"
    assert str(event["DESCRIPTION"]) == meeting.text
    assert str(event["ORGANIZER"]) == "mailto:desk@acorn.example.com"
    assert str(event["ATTENDEE"]) == "mailto:ann@example.com"
    assert event["ATTENDEE"].params["RSVP"] == "TRUE"
    assert str(found["METHOD"]) == "REQUEST"


def test_the_uid_is_one_per_change_and_customer() -> None:
    assert uid_of("CHG-7", ACORN) == uid_of("CHG-7", customer(name="Renamed Ltd"))
    others = {uid_of(each, which) for each in ("CHG-7", "CHG-8") for which in (ACORN, customer("birch"))}
    assert len(others) == 4


def test_a_cancellation_keeps_the_uid_and_says_so() -> None:
    _, first = read(written())
    found, last = read(written("CANCEL", 2))
    assert str(found["METHOD"]) == "CANCEL"
    assert str(last["STATUS"]) == "CANCELLED"
    assert last["UID"] == first["UID"]
    assert last["SEQUENCE"] > first["SEQUENCE"]


@pytest.mark.parametrize("method", ["REQUEST", "CANCEL"])
def test_outlook_gets_what_it_asks_for(method: Method) -> None:
    content = written(method)
    assert content.count(b"\r\n") == content.count(b"\n") > 20
    assert all(len(line) <= 75 for line in content.split(b"\r\n"))
    found, event = read(content)
    assert {"PRODID", "VERSION", "METHOD"} <= set(found)
    assert {"UID", "DTSTAMP", "DTSTART", "DTEND", "SEQUENCE", "ORGANIZER", "ATTENDEE", "SUMMARY"} <= set(event)
    assert [each.name for each in found.subcomponents] == ["VTIMEZONE", "VEVENT"], "a zone, then one event"
    zones = {str(each["TZID"]) for each in found.walk("VTIMEZONE")}
    assert set(re.findall(rb"TZID=([^:;]+)", content)) == {zone.encode() for zone in zones}
    for part in found.walk("STANDARD") + found.walk("DAYLIGHT"):
        assert "RDATE" not in part, "Outlook knows yearly rules, not lists of dates"
        assert part["RRULE"]["FREQ"] == ["YEARLY"]


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Tokyo", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca"]
ZONES += ["America/Sao_Paulo", "Europe/Dublin", "Africa/Cairo", "UTC", "Pacific/Auckland", "Asia/Gaza"]


@settings(max_examples=60, deadline=None)
@given(zone=st.sampled_from(ZONES), hour=st.integers(0, 8759), year=st.integers(2025, 2031))
def test_the_moment_is_the_same_by_the_files_own_zone(zone: str, hour: int, year: int) -> None:
    """Read with the rules that the file itself brings, as a program without our zone database does."""
    at = datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    from zoneinfo import ZoneInfo

    start = at.astimezone(ZoneInfo(zone))
    meeting = Meeting("CHG-7", "T", start, (at + timedelta(minutes=30)).astimezone(ZoneInfo(zone)), "", (("", "x"),))
    content = written(meeting=meeting)
    found, event = read(content)
    local = event["DTSTART"].dt.replace(tzinfo=None)
    if b"TZID=" not in content:
        assert event.start == at
        return
    assert local - by_rules(found.walk("VTIMEZONE")[0], local) == at.replace(tzinfo=None)


def by_rules(zone: Any, local: datetime) -> timedelta:
    """The offset that the latest rule before a local time gives."""
    latest: tuple[datetime, timedelta] | None = None
    for part in zone.subcomponents:
        begins = part["DTSTART"].dt
        years = [begins] if "RRULE" not in part else [_in(part, year) for year in range(begins.year, local.year + 1)]
        for onset in years:
            if onset <= local and (latest is None or onset > latest[0]):
                latest = (onset, part["TZOFFSETTO"].td)
    assert latest is not None, "no rule holds yet"
    return latest[1]


def _in(part: Any, year: int) -> datetime:
    rule, begins = part["RRULE"], part["DTSTART"].dt
    month, day = int(rule["BYMONTH"][0]), str(rule["BYDAY"][0])
    weekday = ("MO", "TU", "WE", "TH", "FR", "SA", "SU").index(day[-2:])
    days = [begins.replace(year=year, month=month, day=1) + timedelta(days=n) for n in range(31)]
    days = [each for each in days if each.month == month and each.weekday() == weekday]
    week = int(day[:-2])
    return days[week if week < 0 else week - 1]


@settings(max_examples=60, deadline=None)
@given(title=st.text(min_size=1, max_size=80), said=st.text(max_size=300))
def test_no_words_break_the_file(title: str, said: str) -> None:
    start = datetime(2027, 3, 20, 9, tzinfo=UTC)
    meeting = Meeting("CHG-7", title, start, start + timedelta(hours=1), "", (("", said),))
    content = written(meeting=meeting)
    assert content.count(b"BEGIN:VEVENT") == content.count(b"END:VEVENT")
    lines = [line for line in content.split(b"\r\n") if line.startswith((b"BEGIN:", b"END:", b"ATTENDEE", b"METHOD"))]
    assert len(lines) == 6, "nobody adds a line of their own"


def test_the_mail_is_an_invitation_that_reads_well() -> None:
    asked = change(
        changeMetadata__changeReason="<b>why</b> {{amazonSESUnsubscribeUrl}} " + "ein sehr langer Satz; 説明 " * 9
    )
    meeting = meeting_of(asked)
    subject, text, html = words(asked, meeting, ACORN, "REQUEST", 0)
    assert (subject, text, html) == render("meeting", asked.as_json(), ACORN), "the preview shows what is sent"
    raw = mail(ACORN, "ann@example.com", subject, text, html, written(meeting=meeting), "REQUEST")
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert message["Subject"] == "Invitation: Cut-over"
    assert message["From"] == "Change desk <desk@acorn.example.com>"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html", "text/calendar"]
    *_, last = message.iter_parts()
    assert (last.get_param("method"), last.get_content_charset()) == ("REQUEST", "utf-8")
    assert "Sat 20 Mar 2027, 05:00 – 06:30 America/New_York" in text
    assert "09:00 – 10:30 UTC" in text
    assert text.count("{{amazonSESUnsubscribeUrl}}") == html.count("{{amazonSESUnsubscribeUrl}}") == 1
    assert "<b>" not in html
    assert raw.count(b"{{amazonSESUnsubscribeUrl}}") == 2, "SES finds the place: no line break in it, no base64"


def test_titles_say_what_became_of_it() -> None:
    meeting = meeting_of(change(invite={**INVITE, "title": "T"}))
    said = [words(change(), meeting, ACORN, *each)[0] for each in (("REQUEST", 0), ("REQUEST", 1), ("CANCEL", 2))]
    assert said == ["Invitation: T", "Updated: T", "Cancelled: T"]


def test_a_cancellation_says_nothing_of_what_the_change_has_become() -> None:
    after = change(changeMetadata__title="For others", changeMetadata__changeReason="For others only")
    _, text, html = words(after, meeting_of(change()), ACORN, "CANCEL", 2)
    for part in (text, html):
        assert "has been called off" in part
        assert "For others" not in part
        assert "09:00 – 10:30 UTC" in part
