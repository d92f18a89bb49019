"""A change reaches the people of each customer once, whatever the order and number of events."""

import asyncio
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import StateType

from flows import change_to_notification as module
from postroom.aws.names import Names
from postroom.changes.model import Change, Status
from postroom.changes.notices import has_told
from postroom.changes.shelf import Shelf
from postroom.changes.standing import standing
from postroom.changes.store import archive_key, trigger_key
from postroom.delivery.report import notices
from postroom.errors import AuthFailed, BadInput, Missing, PostroomError, Unavailable
from postroom.ledger import State
from postroom.ledger.book import open_book
from postroom.settings import settings
from tests.flows.neighbourhood import Neighbourhood
from tests.postroom.changes.samples import written


@pytest.fixture
def here(provisioned: Names, local_aws: str, prefect_server: str) -> Neighbourhood:
    return Neighbourhood(provisioned, local_aws)


async def test_a_customers_people_are_told_and_the_archive_says_so(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann", "bob")
    change = here.submit(acorn)
    outcome = await here.run(change, acorn)
    assert outcome["sent"] == 2
    assert here.told(acorn) == ["ann@acorn.example.com", "bob@acorn.example.com"]
    assert here.processed(change) == [acorn]
    assert here.triggers(change) == []
    entry = here.store.read(change.change_id).modifications[-1]
    assert entry.detail is not None
    assert (entry.detail["topic"], entry.detail["kind"], entry.detail["sent"]) == (
        "aws-approval",
        "approval-request",
        2,
    )
    found = standing(open_book(), here.store.read(change.change_id))["customers"][acorn]
    assert (found["status"], found["recipients"], found["sent"], found["failed"]) == ("done", 2, 2, 0)
    assert found["run"]


async def test_the_run_carries_its_tags(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    await here.run(change, acorn, "0A")
    wanted = [
        f"change:{change.change_id}",
        f"customer:{acorn}",
        "job:change",
        f"key:change:{change.change_id}:{acorn}:0A",
    ]
    async with get_client() as client:
        tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=wanted))
        assert len(await client.read_flow_runs(flow_run_filter=tagged)) == 1


async def test_the_same_event_twice_is_one_notice(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    first = await here.run(change, acorn, "0A")
    assert await here.run(change, acorn, "0A") == first
    assert here.told(acorn) == ["ann@acorn.example.com"]


async def test_two_runs_at_once_for_one_notice_send_once(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann", "bob")
    change = here.submit(acorn)
    await asyncio.gather(here.run(change, acorn, "0A"), here.run(change, acorn, "0B"))
    assert here.told(acorn) == ["ann@acorn.example.com", "bob@acorn.example.com"]
    assert here.processed(change) == [acorn]


async def test_a_trigger_that_is_gone_was_seen_to(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    await here.run(change, acorn, "0A")
    late = await here.run(change, acorn, "0B")
    assert late["told"] is False
    assert len(here.outbox(acorn)) == 1


async def test_submitted_and_approved_of_one_version_are_two_notices(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    await here.run(change, acorn)
    here.store.move(change.change_id, Status.APPROVED, by="bob")
    outcome = await here.run(change, acorn)
    assert (outcome["topic"], outcome["kind"]) == ("aws-announce", "approved")
    assert len(here.outbox(acorn)) == 2


async def test_events_out_of_order_tell_only_what_is_true_now(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    here.store.move(change.change_id, Status.APPROVED, by="bob")
    second = await here.run(change, acorn, "0B")  # of the approval
    first = await here.run(change, acorn, "0A")  # of the submission, which comes late
    assert second["kind"] == "approved"
    assert first["told"] is False
    assert len(here.outbox(acorn)) == 1


async def test_a_newer_status_that_overwrites_the_trigger_meanwhile_is_told_too(
    here: Neighbourhood, monkeypatch: pytest.MonkeyPatch
) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    deliver = module.deliver

    async def and_then_it_is_approved(*given: Any, **named: Any) -> Any:
        report = await deliver(*given, **named)
        here.store.move(change.change_id, Status.APPROVED, by="bob")
        return report

    monkeypatch.setattr(module, "deliver", and_then_it_is_approved)
    first = await here.run(change, acorn, "0A")
    monkeypatch.undo()
    assert first["kind"] == "approval-request"
    assert here.triggers(change) == [acorn], "the newer trigger must stay"
    second = await here.run(change, acorn, "0B")
    assert second["kind"] == "approved"
    assert here.triggers(change) == []
    assert here.store.read(change.change_id).status is Status.APPROVED
    assert [mail["subject"].partition(":")[0] for mail in here.outbox(acorn)] == ["Approval requested", "Approved"]


async def test_who_was_told_is_told_that_it_is_off_and_nobody_else(here: Neighbourhood) -> None:
    acorn, birch = await here.add("acorn", "ann"), await here.add("birch", "bob")
    change = here.submit(acorn, birch)
    await here.run(change, acorn)
    here.store.move(change.change_id, Status.CANCELLED, by="ann")
    told, untold = await here.run(change, acorn), await here.run(change, birch)
    assert told["kind"] == "cancelled"
    assert untold["told"] is False
    assert (len(here.outbox(acorn)), len(here.outbox(birch))) == (2, 0)
    assert here.triggers(change) == []


async def test_cancelled_while_the_first_notice_is_being_sent_is_told_after_it(
    here: Neighbourhood, monkeypatch: pytest.MonkeyPatch
) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    deliver, under_way, go_on = module.deliver, asyncio.Event(), asyncio.Event()

    async def slowly(*given: Any, **named: Any) -> Any:
        if named["kind"] == "approval-request":
            under_way.set()
            await go_on.wait()
        return await deliver(*given, **named)

    monkeypatch.setattr(module, "deliver", slowly)
    first = asyncio.create_task(here.run(change, acorn, "0A"))
    await asyncio.wait_for(under_way.wait(), 20)
    here.store.move(change.change_id, Status.CANCELLED, by="ann")
    second = asyncio.create_task(here.run(change, acorn, "0B"))
    done, _ = await asyncio.wait([second], timeout=1.0)
    assert not done, "it must wait for the notice before it"
    go_on.set()
    await asyncio.gather(first, second)
    assert [mail["subject"].partition(":")[0] for mail in here.outbox(acorn)] == ["Approval requested", "Cancelled"]


async def test_an_edit_is_told_as_an_update(here: Neighbourhood) -> None:
    acorn, birch = await here.add("acorn", "ann"), await here.add("birch", "bob")
    change = here.submit(acorn)
    await here.run(change, acorn)
    document = {**change.as_json(), "changeMetadata": {**change.content()["changeMetadata"]}}
    document["changeMetadata"] |= {"title": "Another title", "customerCodes": [acorn, birch]}
    here.store.update(document, by="ann")
    assert (await here.run(change, acorn))["kind"] == "updated"
    assert (await here.run(change, birch))["kind"] == "approval-request", "it knows no older version"


async def test_a_role_that_can_not_be_assumed_stops_one_customer_only(here: Neighbourhood) -> None:
    acorn, birch = await here.add("acorn", "ann"), await here.add("birch", role=False)
    cedar = await here.add("cedar", "cleo")
    change = here.submit(acorn, birch, cedar)
    results = await asyncio.gather(
        *(here.run(change, code, "0A") for code in (acorn, birch, cedar)), return_exceptions=True
    )
    assert isinstance(results[1], AuthFailed)
    assert sorted(here.processed(change)) == sorted([acorn, cedar])
    assert here.triggers(change) == [birch], "its trigger stays for the retry"
    row = open_book().leases.read(f"change:{change.change_id}:{birch}:0A")
    assert row.state is State.FAILED
    found = standing(open_book(), here.store.read(change.change_id))["customers"]
    assert (found[acorn]["status"], found[birch]["status"]) == ("done", "failed")
    assert "can't be assumed" in found[birch]["reason"]
    assert found[birch]["category"] == "auth"

    here.furnish(birch, "bob")  # somebody mends the role, and asks again
    await here.run(change, birch, "0B")
    assert here.told(birch) == ["bob@birch.example.com"]
    assert (len(here.outbox(acorn)), len(here.outbox(cedar))) == (1, 1)
    assert here.triggers(change) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"code": "someone-else"}, "is not a trigger of the customer someone-else"),
        ({"bucket": "another-bucket"}, "is not the bucket of our changes"),
        ({"key": "customers/other/x.json"}, "is not a trigger"),
    ],
)
async def test_a_foreign_trigger_is_refused_for_good(here: Neighbourhood, wrong: dict[str, str], said: str) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    with pytest.raises(BadInput, match=said):
        await here.run(change, acorn, "0A", **wrong)
    code = wrong.get("code", acorn)
    assert open_book().leases.read(f"change:{change.change_id}:{code}:0A").state is State.FAILED  # so it is buried
    assert here.outbox(acorn) == []


async def test_a_customer_the_change_does_not_name_is_refused(here: Neighbourhood) -> None:
    acorn, birch = await here.add("acorn", "ann"), await here.add("birch", "bob")
    change = here.submit(acorn)
    here.store.shelf.write(trigger_key(birch, change.change_id), {}, over=None)
    with pytest.raises(BadInput, match=f"does not name the customer {birch}"):
        await here.run(change, birch, "0A")
    assert open_book().leases.read(f"change:{change.change_id}:{birch}:0A").state is State.FAILED
    assert here.outbox(birch) == []


def take_off(here: Neighbourhood, change: Change, *left: str) -> None:
    document = {**change.as_json(), "modifications": []}
    document["changeMetadata"] |= {"customerCodes": list(left), "title": "Not for everybody"}
    here.store.update(document, by="ann")


async def test_a_customer_that_an_edit_takes_off_hears_that_it_is_off_in_the_words_it_knows(
    here: Neighbourhood,
) -> None:
    acorn, birch = await here.add("acorn", "ann"), await here.add("birch", "bob")
    change = here.submit(acorn, birch)
    await here.run(change, birch)
    take_off(here, change, acorn)
    assert here.triggers(change) == [acorn, birch]
    outcome = await here.run(change, birch, "0B")
    assert (outcome["kind"], outcome["version"], outcome["sent"]) == ("cancelled", 2, 1)
    await here.run(change, birch, "0B")
    first, last = here.outbox(birch)
    assert last["subject"] == first["subject"].replace("Approval requested", "Cancelled")
    assert "Not for everybody" not in last["text"], "what an edit says is for those who are still named"
    assert here.triggers(change) == [acorn]
    here.store.move(change.change_id, Status.APPROVED, by="bob")
    assert here.triggers(change) == [acorn], "it is told once"


async def test_a_customer_that_is_taken_off_before_it_was_told_hears_nothing(here: Neighbourhood) -> None:
    acorn, birch = await here.add("acorn", "ann"), await here.add("birch", "bob")
    change = here.submit(acorn, birch)
    take_off(here, change, acorn)
    assert (await here.run(change, birch))["told"] is False
    assert here.outbox(birch) == []
    assert here.triggers(change) == [acorn]


async def test_taking_off_one_of_two_customers_of_an_account_tells_nobody_that_it_is_off(here: Neighbourhood) -> None:
    account = "123457" + here.mark[:6].translate(str.maketrans("abcdef", "123456"))
    acorn = await here.add("acorn", "ann", account=account)
    again = await here.add("acorn-test", account=account)
    change = here.submit(acorn, again)
    for code in (acorn, again):
        await here.run(change, code)
    take_off(here, change, acorn)
    assert acorn in (await here.run(change, again))["reason"]
    assert (await here.run(change, acorn))["kind"] == "updated"
    assert [mail["subject"].partition(":")[0] for mail in here.outbox(acorn)] == ["Approval requested", "Updated"]


def test_who_was_told_through_another_code_of_the_account_was_told() -> None:
    assert has_told({"sent": 0, "unknown": 0, "shared": 2})


async def test_the_meeting_does_not_wait_for_a_notice_that_can_not_be_told(here: Neighbourhood) -> None:
    birch = await here.add("birch", role=False)
    invite = {"title": "Cut-over", "startTime": "2027-03-20T10:00", "duration": 90}
    change = here.store.submit({**written(birch), "meetingInvite": invite}, by="ann")
    with pytest.raises(AuthFailed):
        await here.run(change, birch)
    assert open_book().leases.find(f"meeting:{change.change_id}:1") is not None


async def test_a_notice_whose_record_was_lost_is_recorded_by_the_next(
    here: Neighbourhood, monkeypatch: pytest.MonkeyPatch
) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)

    def unavailable(*given: Any, **named: Any) -> Any:
        raise Unavailable("S3 is away")

    with monkeypatch.context() as away:
        away.setattr(Shelf, "write", unavailable)
        with pytest.raises(Unavailable):
            await here.run(change, acorn, "0A")
    here.store.move(change.change_id, Status.APPROVED, by="bob")
    await here.run(change, acorn, "0B")
    kinds = [
        each.detail["kind"] for each in here.store.read(change.change_id).modifications if each.type == "processed"
    ]
    assert kinds == ["approval-request", "approved"]


async def test_a_trigger_without_a_change_says_so(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)
    here.store.shelf.s3.delete_object(Bucket=here.store.shelf.bucket, Key=archive_key(change.change_id))
    with pytest.raises(Missing, match=r"no change .* in the archive"):
        await here.run(change, acorn)


async def test_when_the_archive_can_not_be_written_everything_is_kept_and_nobody_told_twice(
    here: Neighbourhood, monkeypatch: pytest.MonkeyPatch
) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)

    def unavailable(*given: Any, **named: Any) -> Any:
        raise Unavailable("S3 is away")

    monkeypatch.setattr(Shelf, "write", unavailable)
    with pytest.raises(Unavailable):
        await here.run(change, acorn, "0A")
    monkeypatch.undo()
    assert here.triggers(change) == [acorn]
    row = open_book().leases.read(f"change:{change.change_id}:{acorn}:0A")
    assert row.state is State.WAITING
    await here.run(change, acorn, "0A")  # waits until the book lets it begin again
    assert here.processed(change) == [acorn]
    assert here.triggers(change) == []
    assert len(here.outbox(acorn)) == 1


async def test_a_trigger_that_can_not_be_removed_is_only_untidy(
    here: Neighbourhood, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    acorn = await here.add("acorn", "ann")
    change = here.submit(acorn)

    def unavailable(*given: Any, **named: Any) -> Any:
        raise Unavailable("S3 is away")

    monkeypatch.setattr(Shelf, "remove", unavailable)
    assert (await here.run(change, acorn))["sent"] == 1
    assert here.processed(change) == [acorn]


async def test_two_codes_of_one_account_tell_a_person_once(here: Neighbourhood) -> None:
    account = "123456" + here.mark[:6].translate(str.maketrans("abcdef", "123456"))
    acorn = await here.add("acorn", "ann", "bob", account=account)
    again = await here.add("acorn-test", account=account)
    change = here.submit(acorn, again)
    first, second = await asyncio.gather(here.run(change, acorn), here.run(change, again))
    assert here.told(acorn) == ["ann@acorn.example.com", "bob@acorn.example.com"]
    assert first["sent"] + second["sent"] == 2
    assert sorted(here.processed(change)) == sorted([acorn, again])


async def test_a_used_up_quota_is_waited_for_and_costs_no_attempt(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann", "bob", "cleo")
    here.allow(acorn, Max24HourSend=1, MaxSendRate=10)
    change = here.submit(acorn)
    state = await here.run(change, acorn, "0A", return_state=True)
    assert (state.type, state.name) == (StateType.SCHEDULED, "Rescheduled")
    assert "daily quota" in state.message
    row = open_book().leases.read(f"change:{change.change_id}:{acorn}:0A")
    assert (row.state, row.attempts) == (State.WAITING, 0)
    assert row.effective_until > open_book().clock.now_ms()
    assert here.triggers(change) == [acorn]
    found = standing(open_book(), here.store.read(change.change_id))["customers"][acorn]
    assert found["status"] == "waiting"

    here.allow(acorn, Max24HourSend=1000, MaxSendRate=10)  # the next window
    await here.run(change, acorn, "0B")
    assert here.told(acorn) == [f"{person}@acorn.example.com" for person in ("ann", "bob", "cleo")]
    assert here.processed(change) == [acorn]


async def test_a_ledger_that_falls_silent_while_mails_go_out_loses_nobody(
    here: Neighbourhood, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTROOM_PROMISE_SECONDS", "3")
    settings.cache_clear()
    people = [f"p{n:02}" for n in range(40)]
    acorn = await here.add("acorn", *people)
    here.allow(acorn, MaxSendRate=10)
    change = here.submit(acorn)
    first = asyncio.create_task(here.run(change, acorn, "0A"))
    async with asyncio.timeout(30):
        while len(here.told(acorn)) < 3:
            await asyncio.sleep(0.05)
    here.weather(kind="silent", service="dynamodb", seconds=4)
    with pytest.raises(PostroomError):
        await first
    here.allow(acorn, MaxSendRate=100)
    row = open_book().leases.read(f"change:{change.change_id}:{acorn}:0A")
    assert row.state in (State.WAITING, State.WORKING), "the next attempt is due"
    await here.run(change, acorn, "0A")
    assert here.told(acorn) == sorted(f"{person}@acorn.example.com" for person in people)
    assert here.processed(change) == [acorn]


async def test_the_counts_follow_the_book_and_not_what_was_said_first(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann", "bob", "cleo")
    change = here.submit(acorn)
    await here.run(change, acorn)
    book = open_book()
    [notice] = notices(book, change.change_id)
    first = next(iter(book.deliveries.of_batch(notice["deliveries"])))
    book.deliveries.settle(first.delivery_id, "failed", reason="bounced")  # as SES's event says later
    found = standing(book, here.store.read(change.change_id))["customers"][acorn]
    assert [found[name] for name in ("status", "recipients", "sent", "failed")] == ["done", 3, 2, 1]


async def test_a_customer_that_stopped_half_way_shows_what_was_sent(here: Neighbourhood) -> None:
    acorn = await here.add("acorn", "ann", "bob", "cleo")
    here.allow(acorn, Max24HourSend=2, MaxSendRate=10)
    change = here.submit(acorn)
    await here.run(change, acorn, return_state=True)
    found = standing(open_book(), here.store.read(change.change_id))["customers"][acorn]
    assert [found[name] for name in ("recipients", "sent", "pending")] == [3, 2, 1]
