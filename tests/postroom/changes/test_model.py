"""What a change may say, and what is said when it may not."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from postroom.changes import times
from postroom.changes.model import Change, read_change
from postroom.errors import BadInput, Unparsable
from tests.postroom.changes.samples import stored

# Threads that earlier tests left to Prefect draw random numbers too, and Hypothesis takes them for ours.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")

SCHEDULE = "changeMetadata__schedule__"


def test_a_change_comes_back_as_it_was_written() -> None:
    document = stored(meetingInvite={"title": "M", "startTime": "2027-03-20T09:00", "duration": 30, "location": "here"})
    change = read_change(document)
    assert read_change(change.as_json()) == change
    assert change.as_json()["changeMetadata"]["title"] == document["changeMetadata"]["title"]
    assert change.as_json()["createdAt"] == "2027-01-02T03:04:05Z"


@pytest.mark.parametrize("start", ["2027-03-20T10:00:30", "2027-03-20T10:00:30+01:00", "2027-03-20T10:00:00Z"])
def test_a_time_with_seconds_can_be_read_again(start: str) -> None:
    change = read_change(stored(**{f"{SCHEDULE}implementationStart": start}))
    assert read_change(change.as_json()) == change
    assert change.as_json()["changeMetadata"]["schedule"]["implementationStart"] == start


def test_dates_and_times_may_be_given_apart() -> None:
    document = stored()
    document["changeMetadata"]["schedule"] = {
        "beginDate": "2027-03-20",
        "beginTime": "10:00",
        "endDate": "2027-03-20",
        "endTime": "17:00",
        "timezone": "America/New_York",
    }
    change = read_change(document)
    assert change.change_metadata.schedule.start.astimezone(UTC) == datetime(2027, 3, 20, 14, tzinfo=UTC)
    assert change.as_json()["changeMetadata"]["schedule"]["implementationEnd"] == "2027-03-20T17:00"


@pytest.mark.parametrize(
    ("wrong", "code", "named"),
    [
        ({f"{SCHEDULE}timezone": "Mars/Olympus"}, "bad-timezone", "Mars/Olympus"),
        ({f"{SCHEDULE}timezone": "../../etc/passwd"}, "bad-timezone", "passwd"),
        ({f"{SCHEDULE}timezone": "America"}, "bad-timezone", "America"),
        ({f"{SCHEDULE}timezone": None}, "naive-time", "timezone"),
        ({f"{SCHEDULE}implementationEnd": "2027-03-20T10:00"}, "end-before-start", "2027-03-20T10:00"),
        ({f"{SCHEDULE}implementationStart": "2027-03-28T02:30", f"{SCHEDULE}implementationEnd": "2027-03-29T00:00"},
         "impossible-time", "2027-03-28T02:30"),
        ({f"{SCHEDULE}implementationStart": "2027-10-31T02:30", f"{SCHEDULE}implementationEnd": "2027-11-01T00:00"},
         "ambiguous-time", "2027-10-31T02:30+02:00"),
        ({f"{SCHEDULE}implementationStart": "tomorrow"}, "bad-time", "tomorrow"),
        ({f"{SCHEDULE}implementationStart": "2027-02-30T10:00"}, "bad-time", "2027-02-30"),
        ({f"{SCHEDULE}implementationEnd": "9999-12-31T23:59"}, "bad-time", "9999-12-31"),
        ({f"{SCHEDULE}implementationStart": "0001-01-01T00:00"}, "bad-time", "1970 to 2999"),
        ({f"{SCHEDULE}beginDate": "2027-03-20", f"{SCHEDULE}beginTime": "10:00:30"}, "contradiction", "10:00:30"),
        ({f"{SCHEDULE}beginDate": "2027-03-19", f"{SCHEDULE}beginTime": "10:00"}, "contradiction", "2027-03-19"),
        ({f"{SCHEDULE}implementationStart": None}, "missing", "implementationStart"),
        ({"changeMetadata__customerCodes": ["acorn", "elm"]}, "unknown-customer", "elm"),
        ({"changeMetadata__customerCodes": ["acorn", "acorn"]}, "twice", "acorn"),
        ({"changeMetadata__customerCodes": []}, "too_short", "customerCodes"),
        ({"changeMetadata__customerCodes": ["../birch"]}, "bad-code", "../birch"),
        ({"changeMetadata__customerNames": ["Acorn"]}, "contradiction", "customerNames"),
        ({"changeMetadata__title": None}, "missing", "title"),
        ({"changeMetadata__title": "a\r\nBcc: eve@example.com"}, "control-character", "title"),
        ({"emailNotification__subject": "a\nb"}, "control-character", "subject"),
        ({"changeMetadata__testPlan": "a\x00b"}, "control-character", "testPlan"),
        ({"changeMetadata__colour": "red"}, "extra_forbidden", "colour"),
        ({"version": "1"}, "int_type", "version"),
        ({"version": 0}, "greater_than_equal", "version"),
        ({"status": "done"}, "enum", "status"),
        ({"changeId": "a/b"}, "bad-id", "changeId"),
        ({"createdAt": "2027-01-02T03:04:05"}, "timezone_aware", "createdAt"),
        ({"meetingInvite": {"title": "M", "startTime": "2027-03-28T02:30", "duration": 30}}, "impossible-time",
         "meetingInvite.startTime"),
        ({"meetingInvite": {"title": "M", "startTime": "9999-12-31T23:59", "duration": 30}}, "bad-time",
         "meetingInvite.startTime"),
        ({"meetingInvite": {"title": "M", "startTime": "2027-03-20T09:00", "duration": 0}}, "greater_than_equal",
         "duration"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(wrong: dict[str, Any], code: str, named: str) -> None:
    with pytest.raises(BadInput, match=code) as caught:
        read_change(stored(**wrong), known={"acorn", "birch"})
    assert caught.value.details["problems"][0]["code"] == code
    assert named in str(caught.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        read_change(stored(changeMetadata__title=None, emailNotification=None, version=0))
    assert {each["field"] for each in caught.value.details["problems"]} == {
        "changeMetadata.title",
        "emailNotification",
        "version",
    }


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"changeId": "\xff"}', b"null", b"[" * 5000])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        read_change(body)


def test_text_that_is_no_json_is_unparsable() -> None:
    with pytest.raises(Unparsable):
        read_change("{nonsense")


@given(
    at=st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)).map(lambda t: t.replace(second=0, microsecond=0)),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]),
)
@settings(deadline=None, max_examples=300)
def test_a_moment_read_in_its_zone_is_the_local_time_again(at: datetime, zone: str) -> None:
    here = at.replace(tzinfo=UTC).astimezone(times.zone(zone))
    local = here.replace(tzinfo=None).isoformat(timespec="minutes")
    try:
        assert times.moment(local, zone).astimezone(UTC) == here.astimezone(UTC)
    except PydanticCustomError as error:
        # Every moment has a local time, so that time is never impossible; at worst it comes twice.
        assert error.type == "ambiguous-time"
    assert times.moment(here.isoformat(timespec="minutes"), zone).astimezone(UTC) == here.astimezone(UTC)


@given(minutes=st.integers(0, 59))
def test_no_time_in_the_gap_exists(minutes: int) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        times.moment(f"2027-03-28T02:{minutes:02}", "Europe/Berlin")
    assert caught.value.type == "impossible-time"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
@settings(deadline=None)
def test_any_json_is_either_a_change_or_bad_input(value: Any) -> None:
    document = stored()
    for name in ("changeMetadata", "status", "modifications"):
        try:
            assert isinstance(read_change(json.dumps({**document, name: value})), Change)
        except BadInput:
            pass


def test_a_duration_over_the_gap_is_measured_in_real_time() -> None:
    change = read_change(
        stored(
            **{f"{SCHEDULE}implementationStart": "2027-03-28T01:30", f"{SCHEDULE}implementationEnd": "2027-03-28T03:30"}
        )
    )
    schedule = change.change_metadata.schedule
    assert schedule.end.astimezone(UTC) - schedule.start.astimezone(UTC) == timedelta(hours=1)
