"""The meeting of a change, from the archive to the calendar: once per version, whoever asks and whatever breaks."""

import asyncio
import email
import email.policy
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from icalendar import Calendar

from blocks.customer import save_customer
from flows.schedule_meeting import ask_for_meeting, schedule_meeting
from postroom.aws.names import Names
from postroom.changes.model import Change, Status
from postroom.changes.store import ChangeStore, open_store
from postroom.delivery import aws
from postroom.delivery.report import notices
from postroom.errors import PostroomError
from postroom.ledger.book import open_book
from postroom.meetings.again import invitation, invite_again
from postroom.settings import settings
from tests.fixtures.graph import FakeGraph
from tests.postroom.changes.samples import written
from tests.postroom.delivery.conftest import open_account
from tests.postroom.meetings.samples import INVITE

LATER = {**INVITE, "startTime": "2027-03-20T15:00"}


class Room:
    """A post room with some customers, each with an account of its own."""

    def __init__(self, url: str, codes: list[str]) -> None:
        self.accounts = {code: open_account(url, code) for code in codes}
        self.store: ChangeStore = open_store()

    @property
    def codes(self) -> list[str]:
        return list(self.accounts)

    async def open(self) -> "Room":
        for account in self.accounts.values():
            await save_customer(account.customer)
        return self

    def invite(self, **people: list[str]) -> None:
        for code, addresses in zip(self.codes, people.values(), strict=False):
            self.accounts[code].subscribe(addresses, "aws-calendar")

    def submit(self, invite: dict[str, Any] | None = INVITE) -> Change:
        document = written(*self.codes)
        return self.store.submit({**document, **({"meetingInvite": invite} if invite else {})}, by="ann@example.com")

    def update(self, change: Change, invite: dict[str, Any] | None, **fields: Any) -> Change:
        document = {"changeId": change.change_id, **written(*self.codes, **fields)}
        after = self.store.update({**document, **({"meetingInvite": invite} if invite else {})}, by="ann@example.com")
        assert isinstance(after, Change)
        return after

    def history(self, change: Change) -> list[str]:
        return [
            each.type.removeprefix("meeting-")
            for each in self.store.read(change.change_id).modifications
            if each.type.startswith("meeting-")
        ]


@pytest.fixture
def use_graph(graph: FakeGraph, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGraph]:
    for name, value in graph.settings().items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    yield graph
    settings.cache_clear()


@pytest.fixture
async def room(provisioned: Names, prefect_server: str, local_aws: str) -> Room:
    aws.forget()
    mark = uuid.uuid4().hex[:6]
    return await Room(local_aws, [f"{tree}-{mark}" for tree in ("acorn", "birch", "cedar")]).open()


async def test_thirty_triggers_at_once_make_one_event(use_graph: FakeGraph, room: Room) -> None:
    room.invite(
        a=["ann@example.com", "Bob@example.com"], b=["bob@EXAMPLE.com", "cid@example.com"], c=["dee@example.com"]
    )
    change = room.submit()
    outcomes = await asyncio.gather(*(schedule_meeting(change.change_id, 1) for _ in range(30)))
    assert [outcome["action"] for outcome in outcomes] == ["create"] * 30, "each reports the one outcome"
    (event_id,) = use_graph.events
    assert use_graph.people(event_id) == ["Bob@example.com", "ann@example.com", "cid@example.com", "dee@example.com"]
    assert len(use_graph.writes()) == 1
    assert room.history(change) == ["asked", "scheduled"]
    detail = room.store.read(change.change_id).modifications[-1].detail or {}
    assert detail["eventId"] == event_id
    assert detail["joinUrl"].startswith("https://")


async def test_a_new_time_is_one_patch_and_no_change_is_no_call(use_graph: FakeGraph, room: Room) -> None:
    room.invite(a=["ann@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    room.update(change, LATER)
    await asyncio.gather(*(schedule_meeting(change.change_id, 2) for _ in range(5)))
    assert use_graph.writes("PATCH") == [use_graph.writes()[-1]]
    (event,) = use_graph.events.values()
    assert event["start"]["dateTime"] == "2027-03-20T14:00:00"
    assert event["onlineMeeting"]["joinUrl"], "it still is a Teams meeting"
    room.update(change, LATER, changeMetadata__testPlan="Compare twenty reports.")  # not told in the invitation
    calls = list(use_graph.calls)
    outcome = await schedule_meeting(change.change_id, 3)
    assert outcome["action"] == "nothing"
    assert use_graph.calls == calls
    assert room.history(change) == ["asked", "scheduled", "updated"]


@pytest.mark.parametrize("how", [Status.CANCELLED, Status.REJECTED])
async def test_a_change_that_is_off_calls_its_meeting_off(use_graph: FakeGraph, room: Room, how: Status) -> None:
    room.invite(a=["ann@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    room.store.move(change.change_id, how, by="ann@example.com")
    outcomes = await asyncio.gather(*(schedule_meeting(change.change_id, 1, off=True) for _ in range(3)))
    assert {outcome["action"] for outcome in outcomes} == {"cancel"}
    assert not use_graph.events
    assert len(use_graph.cancelled) == 1
    assert room.history(change) == ["asked", "scheduled", "cancelled"]


async def test_an_edit_without_meeting_calls_it_off_and_one_with_it_makes_another(
    use_graph: FakeGraph, room: Room
) -> None:
    room.invite(a=["ann@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    room.update(change, None)
    assert (await schedule_meeting(change.change_id, 2))["action"] == "cancel"
    room.update(change, LATER)
    assert (await schedule_meeting(change.change_id, 3))["action"] == "create"
    assert len(use_graph.cancelled) == len(use_graph.events) == 1


async def test_killed_between_graphs_answer_and_the_record_there_is_one_event(use_graph: FakeGraph, room: Room) -> None:
    room.invite(a=["ann@example.com"])
    change = room.submit()
    script = textwrap.dedent(
        """
        import asyncio, os, signal, sys
        from flows.schedule_meeting import schedule_meeting
        from postroom.changes.store import ChangeStore
        record = ChangeStore.record
        def killed(self, change_id, entry):
            if entry.type == "meeting-scheduled":
                os.kill(os.getpid(), signal.SIGKILL)
            return record(self, change_id, entry)
        ChangeStore.record = killed
        asyncio.run(schedule_meeting(sys.argv[1], 1))
        """
    )
    env = {**os.environ, "POSTROOM_PROMISE_SECONDS": "3"}
    command = [sys.executable, "-c", script, change.change_id]
    ended = await asyncio.to_thread(subprocess.run, command, env=env, timeout=90)
    assert ended.returncode == -signal.SIGKILL
    assert len(use_graph.events) == 1
    assert room.history(change) == ["asked"]
    outcome = await schedule_meeting(change.change_id, 1)
    assert outcome["event_id"] in use_graph.events
    assert len(use_graph.events) == 1
    assert len(use_graph.writes()) == 1, "it was found, not made again"
    assert room.history(change) == ["asked", "scheduled"]


async def test_one_customer_out_of_reach_is_said_and_the_others_are_invited(use_graph: FakeGraph, room: Room) -> None:
    room.invite(a=["ann@example.com"], b=["bob@example.com"], c=["cid@example.com"])
    birch = room.accounts[room.codes[1]].customer
    await save_customer(replace(birch, ses_role_arn=f"arn:aws:iam::{birch.account}:role/none"))
    change = room.submit()
    with pytest.raises(PostroomError, match=f"not for {birch.code}"):
        await schedule_meeting(change.change_id, 1)
    (event_id,) = use_graph.events
    assert use_graph.people(event_id) == ["ann@example.com", "cid@example.com"]
    await save_customer(birch)
    key = await asyncio.to_thread(open_book().leases.replay, f"meeting:{change.change_id}:1")
    assert key.endswith(":r1")
    room.update(change, LATER)
    await schedule_meeting(change.change_id, 2)
    assert use_graph.people(event_id) == ["ann@example.com", "bob@example.com", "cid@example.com"]
    assert list(use_graph.events) == [event_id]


async def test_a_version_that_was_overtaken_does_nothing(use_graph: FakeGraph, room: Room) -> None:
    room.invite(a=["ann@example.com"])
    change = room.submit()
    room.update(change, LATER)
    assert "overtaken" in (await schedule_meeting(change.change_id, 1))["reason"]
    assert not use_graph.calls


async def test_without_graph_invitations_go_by_mail_once_each(room: Room) -> None:
    room.invite(a=["ann@example.com", "Bob@example.com"], b=["bob@example.com", "cid@example.com"])
    change = room.submit()
    outcome = await schedule_meeting(change.change_id, 1)
    assert outcome["through"] == "ics"
    assert outcome["sent"] == 3
    acorn, birch, _ = room.accounts.values()
    assert acorn.told() == ["Bob@example.com", "ann@example.com"]
    assert birch.told() == ["cid@example.com"], "bob is invited by the first customer that lists him"
    room.update(change, INVITE, changeMetadata__testPlan="Other.")
    assert (await schedule_meeting(change.change_id, 2))["action"] == "nothing"
    assert len(acorn.outbox()) == 2, "nothing changed, nobody is told again"

    room.update(change, LATER)
    await schedule_meeting(change.change_id, 3)
    room.store.move(change.change_id, Status.CANCELLED, by="ann@example.com")
    assert (await schedule_meeting(change.change_id, 3, off=True))["sent"] == 3
    files = [_calendar(acorn.url, mail["message_id"]) for mail in acorn.outbox() if "ann@" in mail["to"][0]]
    events = [file.walk("VEVENT")[0] for file in files]
    assert [str(file["METHOD"]) for file in files] == ["REQUEST", "REQUEST", "CANCEL"]
    assert len({str(event["UID"]) for event in events}) == 1
    assert [event["SEQUENCE"] for event in events] == [0, 1, 2]
    assert events[2].start == events[1].start > events[0].start
    assert str(events[0]["ATTENDEE"]) == "mailto:ann@example.com"


async def test_called_off_by_mail_is_told_only_to_those_who_may_be_written_to(room: Room) -> None:
    acorn = room.accounts[room.codes[0]]
    room.invite(a=["ann@example.com", "bounced@example.com", "left@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    ses = acorn.client("sesv2")
    ses.put_suppressed_destination(EmailAddress="bounced@example.com", Reason="BOUNCE")
    ses.delete_contact(ContactListName="people", EmailAddress="left@example.com")
    room.store.move(change.change_id, Status.CANCELLED, by="ann@example.com")
    await schedule_meeting(change.change_id, 1, off=True)
    off = [mail["to"][0] for mail in acorn.outbox() if mail["subject"].startswith("Cancelled")]
    assert off == ["ann@example.com"]


async def test_people_of_a_customer_taken_off_hear_that_it_is_off_once_and_nobody_else(room: Room) -> None:
    room.invite(a=["ann@example.com"], b=["bob@example.com", "both@example.com"], c=["both@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    acorn, birch, cedar = room.accounts.values()
    assert birch.told() == ["bob@example.com", "both@example.com"]
    left = room.update(change, INVITE, changeMetadata__customerCodes=[room.codes[0], room.codes[2]])
    outcome = await schedule_meeting(left.change_id, 2)
    assert outcome["called_off"] == 1
    room.update(change, LATER, changeMetadata__customerCodes=[room.codes[0], room.codes[2]])
    await schedule_meeting(change.change_id, 3)
    subjects = {to: [mail["subject"] for mail in birch.outbox() if mail["to"] == [to]] for to in birch.told()}
    assert subjects["bob@example.com"] == ["Invitation: Cut-over", "Cancelled: Cut-over"]
    assert subjects["both@example.com"] == ["Invitation: Cut-over", "Updated: Cut-over"], "one UID for one person"
    assert cedar.told() == []
    files = [_calendar(birch.url, mail["message_id"]) for mail in birch.outbox() if mail["to"] == ["bob@example.com"]]
    first, last = (file.walk("VEVENT")[0] for file in files)
    assert (str(first["UID"]), first["SEQUENCE"] < last["SEQUENCE"]) == (str(last["UID"]), True)

    room.update(change, LATER)  # it is back on the change
    await schedule_meeting(change.change_id, 4)
    bobs = [mail["subject"] for mail in birch.outbox() if mail["to"] == ["bob@example.com"]]
    assert bobs[2:] == ["Updated: Cut-over"]
    room.store.move(change.change_id, Status.CANCELLED, by="ann@example.com")
    assert (await schedule_meeting(change.change_id, 4, off=True))["sent"] == 3
    assert len(acorn.outbox()) == 4


async def test_called_off_for_some_and_wanted_again_everybody_hears_that_it_is_on(room: Room) -> None:
    room.invite(a=["ann@example.com"], b=["bob@example.com"])
    acorn, birch, _ = room.accounts.values()
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    await save_customer(replace(birch.customer, ses_role_arn=f"arn:aws:iam::{birch.customer.account}:role/none"))
    room.store.move(change.change_id, Status.REJECTED, by="ann@example.com")
    with pytest.raises(PostroomError, match=f"not for {birch.customer.code}"):
        await schedule_meeting(change.change_id, 1, off=True)
    assert room.history(change) == ["scheduled", "ending"]
    await save_customer(birch.customer)
    room.update(change, INVITE, changeMetadata__testPlan="Another.")
    assert (await schedule_meeting(change.change_id, 2))["action"] == "create"
    assert [mail["subject"] for mail in acorn.outbox()] == [
        *("Invitation: Cut-over", "Cancelled: Cut-over", "Updated: Cut-over")
    ]
    files = [_calendar(birch.url, mail["message_id"]).walk("VEVENT")[0] for mail in birch.outbox()]
    assert len({str(each["UID"]) for each in files}) == 1
    assert [each["SEQUENCE"] for each in files] == [0, 2]


async def test_a_failed_invitation_can_be_tried_again(room: Room) -> None:
    acorn, book = room.accounts[room.codes[0]], open_book()
    room.invite(a=["ann@example.com", "bob@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    [entry] = [each for each in notices(book, change.change_id) if each["customer"] == acorn.customer.code]
    bounced = book.deliveries.find(entry["deliveries"], "bob@example.com")
    assert bounced is not None
    book.deliveries.settle(bounced.delivery_id, "failed", reason="bounced")
    change = room.store.read(change.change_id)
    notice = invitation(change, acorn.customer, entry)
    assert notice is not None
    report = await invite_again(book, change, notice)
    assert (report.sent, report.failed) == (2, 0)
    assert acorn.told() == ["ann@example.com", "bob@example.com", "bob@example.com"]
    room.store.move(change.change_id, Status.CANCELLED, by="ann@example.com")
    assert invitation(room.store.read(change.change_id), acorn.customer, entry) is None, "it is off"


async def test_a_meeting_begun_by_mail_stays_with_mail(
    room: Room, graph: FakeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.invite(a=["ann@example.com"])
    change = room.submit()
    await schedule_meeting(change.change_id, 1)
    for name, value in graph.settings().items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    room.update(change, LATER)
    assert (await schedule_meeting(change.change_id, 2))["through"] == "ics"
    assert not graph.calls


async def test_a_meeting_is_asked_for_once_and_only_where_there_is_one(room: Room) -> None:
    plain, wanted = room.submit(None), room.submit()
    await asyncio.gather(*(ask_for_meeting(each) for each in (plain, wanted) * 5))
    leases = open_book().leases
    assert leases.find(f"meeting:{plain.change_id}:1") is None
    row = leases.find(f"meeting:{wanted.change_id}:1")
    assert row is not None
    assert row.work is not None
    assert row.work.parameters == {"change_id": wanted.change_id, "version": 1, "off": False}
    without = room.update(wanted, None)
    await ask_for_meeting(without)
    assert leases.find(f"meeting:{wanted.change_id}:2") is not None, "an earlier version may have made a meeting"
    off = room.store.move(wanted.change_id, Status.CANCELLED, by="ann@example.com")
    assert isinstance(off, Change)
    await ask_for_meeting(off)
    assert leases.find(f"meeting:{wanted.change_id}:2:off") is not None


def _calendar(url: str, message_id: str) -> Calendar:
    with urllib.request.urlopen(f"{url}/_postroom/outbox/{message_id}") as answer:
        message = email.message_from_bytes(answer.read(), policy=email.policy.default)
    assert message.get_content_type() == "multipart/alternative"
    *_, last = message.iter_parts()
    assert last.get_content_type() == "text/calendar"
    found = Calendar.from_ical(last.get_payload(decode=True))
    assert last.get_param("method") == str(found["METHOD"])
    return found
