"""What has to happen to a meeting is decided from the archive alone."""

from typing import Any

import pytest

from postroom.errors import LimitReached, Misconfigured, NetworkDown
from postroom.meetings.graph import GraphCalendar
from postroom.meetings.keeping import keep, with_those_invited
from postroom.meetings.meeting import meeting_of
from postroom.meetings.microsoft import Microsoft
from postroom.meetings.plan import Action, earlier_keys, ledger_key, plan
from postroom.meetings.standing import standing_of, transaction_id
from tests.fixtures.graph import FakeGraph
from tests.postroom.meetings.samples import INVITE, Archive, change, people

ANN = people("ann@example.com")


@pytest.mark.parametrize(
    ("status", "action"),
    [
        *(("submitted", "create"), ("approved", "create")),
        *((off, "nothing") for off in ("draft", "rejected", "completed", "cancelled")),
    ],
)
def test_a_status_that_is_on_asks_for_a_meeting(status: str, action: str) -> None:
    assert plan(change(status), ANN, graph=True).action == action


def test_no_meeting_is_wanted_where_none_is_named_or_nobody_listens() -> None:
    assert plan(change(invite=None), ANN, graph=True).action is Action.NOTHING
    assert plan(change(), people(), graph=True).action is Action.NOTHING


def test_more_than_500_people_are_refused_for_a_calendar_and_fine_by_mail() -> None:
    crowd = people(*(f"p{n}@example.com" for n in range(501)))
    with pytest.raises(LimitReached, match="501 attendees; Microsoft Graph allows 500"):
        plan(change(), crowd, graph=True)
    assert plan(change(), crowd, graph=False).action is Action.CREATE


def test_calling_off_is_another_piece_of_work_that_waits_for_the_first() -> None:
    assert ledger_key(change(version=2)) == "meeting:CHG-7:2"
    assert ledger_key(change("cancelled", 2)) == "meeting:CHG-7:2:off"
    assert earlier_keys("CHG-7", 2, off=True) == ["meeting:CHG-7:1", "meeting:CHG-7:1:off", "meeting:CHG-7:2"]


def test_a_transaction_is_one_change_and_one_purpose() -> None:
    assert transaction_id("CHG-7", "meeting") == transaction_id("CHG-7", "meeting")
    assert len({transaction_id(each, what) for each in ("CHG-7", "CHG-8") for what in ("meeting", "meeting:2")}) == 4


def test_the_length_of_a_meeting_is_that_of_the_world_when_clocks_change() -> None:
    night = meeting_of(change(invite={**INVITE, "startTime": "2027-03-28T01:30", "duration": 60}))
    assert night.end.isoformat() == "2027-03-28T03:30:00+02:00"


async def go(graph: FakeGraph, archive: Archive, attendees: Any = ANN) -> dict[str, Any]:
    async with Microsoft(graph.access) as microsoft:
        calendar = GraphCalendar(microsoft)
        attendees = await with_those_invited(attendees, archive.change, calendar)
        step = plan(archive.change, attendees, graph=True)
        return await keep(step, archive.change, attendees, calendar, archive.record, lambda: None)


async def test_doing_it_twice_is_doing_it_once(graph: FakeGraph) -> None:
    archive = Archive(change())
    assert (await go(graph, archive))["action"] == "create"
    assert (await go(graph, archive))["action"] == "nothing"
    assert len(graph.writes()) == len(graph.events) == 1


async def test_only_what_calendars_show_is_a_real_change(graph: FakeGraph) -> None:
    archive = Archive(change())
    await go(graph, archive)
    archive.edit(status="approved", version=2, changeMetadata__testPlan="Another plan.")
    assert (await go(graph, archive))["action"] == "nothing"
    archive.edit(version=3, invite={**INVITE, "location": "Town hall"})
    assert (await go(graph, archive))["action"] == "update"
    assert (await go(graph, archive))["action"] == "nothing"
    assert len(graph.writes("PATCH")) == 1


async def test_newcomers_are_added_to_the_event(graph: FakeGraph) -> None:
    archive = Archive(change())
    await go(graph, archive)
    await go(graph, archive, people("ann@example.com", "bob@example.com"))
    assert graph.people(next(iter(graph.events))) == ["ann@example.com", "bob@example.com"]


async def test_nobody_is_put_off_because_a_list_could_not_be_read(graph: FakeGraph) -> None:
    archive = Archive(change())
    await go(graph, archive, people("ann@example.com", "bob@example.com"))
    partly = people("cid@example.com", unread={"birch": NetworkDown("away")})
    await go(graph, archive, partly)
    assert graph.people(next(iter(graph.events))) == ["ann@example.com", "bob@example.com", "cid@example.com"]


async def test_an_event_of_an_earlier_try_gets_the_words_of_now(graph: FakeGraph) -> None:
    """Made by version 1 and never recorded; by version 2 the time is another."""
    archive = Archive(change())
    async with Microsoft(graph.access) as microsoft:
        standing = standing_of(archive.change)
        await archive.record(standing.asking(1, "graph", "words of version 1"))
        await GraphCalendar(microsoft).create(meeting_of(archive.change), ["ann@example.com"], standing.transaction)
    archive.edit(version=2, invite={**INVITE, "startTime": "2027-03-20T15:00"})
    await go(graph, archive)
    (event,) = graph.events.values()
    assert event["start"]["dateTime"] == "2027-03-20T14:00:00"


async def test_a_meeting_that_was_asked_for_but_never_recorded_is_called_off_too(graph: FakeGraph) -> None:
    archive = Archive(change())
    async with Microsoft(graph.access) as microsoft:
        standing = standing_of(archive.change)
        await archive.record(standing.asking(1, "graph", "x"))
        await GraphCalendar(microsoft).create(meeting_of(archive.change), ["ann@example.com"], standing.transaction)
    archive.edit(status="cancelled")
    assert (await go(graph, archive))["action"] == "cancel"
    assert len(graph.cancelled) == 1
    assert not graph.events
    assert (await go(graph, archive))["action"] == "nothing"


async def test_an_event_that_somebody_deleted_is_made_anew_when_the_meeting_changes(graph: FakeGraph) -> None:
    archive = Archive(change())
    first = (await go(graph, archive))["event_id"]
    graph.events.clear()
    archive.edit(version=2, invite={**INVITE, "duration": 30})
    second = (await go(graph, archive))["event_id"]
    assert first != second
    assert list(graph.events) == [second]


async def test_a_meeting_in_a_calendar_that_is_not_set_up_any_more_is_said(graph: FakeGraph) -> None:
    archive = Archive(change())
    await go(graph, archive)
    with pytest.raises(Misconfigured, match="POSTROOM_GRAPH_"):
        plan(archive.change, ANN, graph=False)
