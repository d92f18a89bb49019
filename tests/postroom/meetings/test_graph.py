"""The Microsoft calendar: every request may be repeated, and what can't be is said clearly."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import SecretStr

from postroom.errors import AuthFailed, BadInput, LimitReached, Misconfigured, Missing, NetworkDown, RateLimited
from postroom.meetings.access import access_of
from postroom.meetings.graph import GraphCalendar, wanted
from postroom.meetings.meeting import meeting_of
from postroom.meetings.microsoft import Microsoft
from postroom.meetings.standing import transaction_id
from postroom.settings import load
from tests.fixtures.graph import BLOB, SECRET, FakeGraph, Refusal
from tests.postroom.meetings.samples import INVITE, change

TRANSACTION = transaction_id("CHG-7", "meeting")
MEETING = meeting_of(change())


@pytest.fixture
async def microsoft(graph: FakeGraph) -> AsyncIterator[Microsoft]:
    async with Microsoft(graph.access) as connection:
        yield connection


@pytest.fixture
def calendar(microsoft: Microsoft) -> GraphCalendar:
    return GraphCalendar(microsoft)


async def test_an_event_says_what_the_change_says(calendar: GraphCalendar, graph: FakeGraph) -> None:
    event = await calendar.create(MEETING, ["ann@example.com", "bob@example.com"], TRANSACTION)
    there = graph.events[event.id]
    assert there["subject"] == "Cut-over"
    assert there["start"] == {"dateTime": "2027-03-20T09:00:00", "timeZone": "UTC"}
    assert there["end"] == {"dateTime": "2027-03-20T10:30:00", "timeZone": "UTC"}
    assert graph.people(event.id) == ["ann@example.com", "bob@example.com"]
    assert there["hideAttendees"] is True, "customers do not see each other's people"
    assert event.join_url == "https://teams.example.com/join/1"


async def test_creating_it_again_gives_the_same_event(calendar: GraphCalendar, graph: FakeGraph) -> None:
    made = [await calendar.create(MEETING, ["ann@example.com"], TRANSACTION) for _ in range(3)]
    assert len({event.id for event in made}) == len(graph.events) == 1


async def test_an_answer_that_is_lost_makes_no_second_event(calendar: GraphCalendar, graph: FakeGraph) -> None:
    graph.vanish = 2
    event = await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    assert list(graph.events) == [event.id]
    assert len(graph.writes("POST")) == 3


async def test_words_of_strangers_are_no_markup(calendar: GraphCalendar, graph: FakeGraph) -> None:
    sly = meeting_of(change(changeMetadata__changeReason="<script>alert(1)</script>\n<b>"))
    event = await calendar.create(sly, ["ann@example.com"], TRANSACTION)
    assert "<script" not in graph.events[event.id]["body"]["content"]
    assert "&lt;script&gt;" in graph.events[event.id]["body"]["content"]


async def test_a_place_that_is_named_needs_no_teams_meeting(graph: FakeGraph) -> None:
    hall = meeting_of(change(invite={**INVITE, "location": "Town hall"}))
    assert "isOnlineMeeting" not in wanted(hall, [], graph.access)
    assert wanted(MEETING, [], graph.access)["isOnlineMeeting"] is True
    assert "isOnlineMeeting" not in wanted(MEETING, [], replace(graph.access, online=False))


async def test_an_update_is_one_patch_and_keeps_the_event(calendar: GraphCalendar, graph: FakeGraph) -> None:
    event = await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    later = meeting_of(change(invite={**INVITE, "startTime": "2027-03-20T14:00"}))
    assert (await calendar.update(event.id, later, ["ann@example.com"])).id == event.id
    assert graph.events[event.id]["start"]["dateTime"] == "2027-03-20T13:00:00"
    assert len(graph.writes("PATCH")) == 1


async def test_other_words_replace_ours_and_leave_the_teams_meeting_alone(
    calendar: GraphCalendar, graph: FakeGraph
) -> None:
    event = await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    there = graph.events[event.id]
    there["body"]["content"] = there["body"]["content"].replace("</body>", "<p>Bring your badge.</p></body>")
    for reason in ("The old one is full.", r"A back\slash \1 & a <b>"):
        after = await calendar.update(event.id, meeting_of(change(changeMetadata__changeReason=reason)), [])
        assert after.join_url == event.join_url
    content = graph.events[event.id]["body"]["content"]
    assert "The old one is full." not in content
    assert r"A back\slash \1 &amp; a &lt;b&gt;" in content
    assert content.count('id="postroom"') == content.count("Bring your badge.") == 1


async def test_the_same_words_are_not_written_again(calendar: GraphCalendar, graph: FakeGraph) -> None:
    event = await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    graph.events[event.id]["body"]["content"] = "<p>Rewritten by hand.</p>" + BLOB
    later = meeting_of(change(invite={**INVITE, "startTime": "2027-03-20T14:00"}))
    assert (await calendar.update(event.id, later, ["ann@example.com"], words=False)).join_url
    assert graph.events[event.id]["body"]["content"].startswith("<p>Rewritten by hand.</p>")


async def test_an_event_is_found_again_by_its_transaction(calendar: GraphCalendar) -> None:
    assert await calendar.find(TRANSACTION) is None
    event = await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    assert await calendar.find(TRANSACTION) == event
    assert await calendar.find(transaction_id("CHG-8", "meeting")) is None


async def test_cancelling_twice_is_cancelling_once(calendar: GraphCalendar, graph: FakeGraph) -> None:
    event = await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    assert await calendar.cancel(event.id) is True
    assert await calendar.cancel(event.id) is False
    assert list(graph.cancelled) == [event.id]
    assert not graph.events


async def test_updating_an_event_that_is_gone_is_an_error_of_its_own(calendar: GraphCalendar) -> None:
    with pytest.raises(Missing, match="ErrorItemNotFound"):
        await calendar.update("AAMkGone=", MEETING, [])


async def test_the_token_is_kept_and_renewed_when_it_is_over(
    calendar: GraphCalendar, microsoft: Microsoft, graph: FakeGraph
) -> None:
    await asyncio.gather(*(calendar.check() for _ in range(5)))
    assert len(graph.tokens) == 1
    graph.expire_tokens()  # Microsoft may take one back before its time
    assert await calendar.check() == "Calendar"
    assert len(graph.tokens) == 2


async def test_a_short_token_is_renewed_before_it_ends(graph: FakeGraph) -> None:
    graph.token_seconds = 1
    async with Microsoft(graph.access) as connection:
        first = await connection.token()
        deadline = time.monotonic() + 5
        while await connection.token() == first:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        assert graph.tokens[first.get_secret_value()] > time.monotonic(), "renewed while the old one still held"


async def test_a_wrong_secret_is_said_without_the_secret(graph: FakeGraph) -> None:
    wrong = "wrong-and-not-for-logs"
    async with Microsoft(replace(graph.access, client_secret=SecretStr(wrong))) as connection:
        with pytest.raises(AuthFailed, match="invalid_client") as failed:
            await GraphCalendar(connection).check()
    assert wrong not in str(failed.value)
    assert SECRET not in repr(graph.access)


async def test_a_calendar_of_nobody_is_named(graph: FakeGraph) -> None:
    async with Microsoft(replace(graph.access, organizer="nobody@example.com")) as connection:
        with pytest.raises(Missing, match=r"nobody@example\.com"):
            await GraphCalendar(connection).check()


async def test_retry_after_is_waited_for(calendar: GraphCalendar, graph: FakeGraph) -> None:
    await calendar.check()
    graph.throttle(1, "1")
    began = time.monotonic()
    await calendar.create(MEETING, ["ann@example.com"], TRANSACTION)
    assert time.monotonic() - began >= 1.0
    assert len(graph.events) == 1


async def test_a_long_wait_is_left_to_the_run(calendar: GraphCalendar, graph: FakeGraph) -> None:
    graph.throttle(1, format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True))
    with pytest.raises(RateLimited) as limited:
        await calendar.check()
    assert limited.value.retry_after == pytest.approx(600, abs=5)


async def test_throttling_without_end_is_given_up(calendar: GraphCalendar, graph: FakeGraph) -> None:
    graph.throttle(10)
    with pytest.raises(RateLimited):
        await calendar.check()
    assert len(graph.refuse) == 7, "three tries, as the settings say"


async def test_what_graph_refuses_is_not_tried_again(calendar: GraphCalendar, graph: FakeGraph) -> None:
    with pytest.raises(BadInput, match="ErrorInvalidRecipients"):
        await calendar.create(MEETING, ["not an address"], TRANSACTION)
    assert len(graph.writes()) == 1


async def test_a_forbidden_calendar_is_an_error_of_credentials(calendar: GraphCalendar, graph: FakeGraph) -> None:
    graph.refuse.append(Refusal(403, "ErrorAccessDenied", "Access is denied. Check credentials and try again."))
    with pytest.raises(AuthFailed, match="ErrorAccessDenied"):
        await calendar.check()


async def test_more_than_500_attendees_are_refused_before_graph_is_asked(
    calendar: GraphCalendar, graph: FakeGraph
) -> None:
    crowd = [f"p{n}@example.com" for n in range(501)]
    with pytest.raises(LimitReached, match="501 attendees"):
        await calendar.create(MEETING, crowd, TRANSACTION)
    assert not graph.calls
    assert len(graph.people((await calendar.create(MEETING, crowd[:500], TRANSACTION)).id)) == 500


async def test_a_server_that_is_away_is_a_network_error(graph: FakeGraph) -> None:
    away = replace(graph.access, login="http://127.0.0.1:1")
    async with Microsoft(away, tries=1) as connection:
        with pytest.raises(NetworkDown):
            await connection.token()


def test_half_a_configuration_names_what_is_missing() -> None:
    assert access_of(load()) is None
    with pytest.raises(Misconfigured, match="POSTROOM_GRAPH_CLIENT_SECRET"):
        access_of(load(graph_tenant="t", graph_client_id="c", graph_organizer="o@example.com"))
    whole = load(graph_tenant="t", graph_client_id="c", graph_organizer="o@example.com", graph_client_secret="s")
    assert access_of(whole) is not None
