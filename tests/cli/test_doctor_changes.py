"""The doctor tries what changes need: the calendar, the way from S3 to the sensor, a mail."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from blocks.customer import remove_customer, save_customer
from cli import checkups_changes
from postroom.aws.names import Names
from postroom.aws.notifications import remove_notification
from postroom.aws.provision import provision_customer
from postroom.changes.sounding import sound
from postroom.delivery import aws
from postroom.delivery.trial import send_test_mail
from postroom.errors import AuthFailed, BadInput, Misconfigured, PostroomError, Refused
from postroom.ledger.book import open_book
from postroom.settings import settings
from tests.fixtures.graph import FakeGraph
from tests.postroom.delivery.conftest import Account, open_account
from tests.workers.sensing import deployments, sensing


async def calendar() -> list[tuple[bool, str]]:
    return [(each.well, each.said) for each in await asyncio.to_thread(lambda: list(checkups_changes.calendar()))]


async def test_a_calendar_that_can_be_read_is_well(
    prefect_server: str, graph: FakeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.cache_clear()
    ((well, said),) = await calendar()
    assert well
    assert "by mail" in said
    for name, value in graph.settings().items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    ((well, said),) = await calendar()
    assert well
    assert "changes@example.com" in said
    monkeypatch.setenv("POSTROOM_GRAPH_CLIENT_SECRET", "wrong")
    settings.cache_clear()
    with pytest.raises(AuthFailed, match="invalid_client"):
        await calendar()
    monkeypatch.delenv("POSTROOM_GRAPH_CLIENT_SECRET")
    settings.cache_clear()
    with pytest.raises(Misconfigured, match="POSTROOM_GRAPH_CLIENT_SECRET is missing"):
        await calendar()
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
async def code(provisioned: Names, prefect_server: str, local_aws: str) -> AsyncIterator[str]:
    """A customer with a queue, and with nothing else amiss."""
    name = f"oak-{uuid.uuid4().hex[:6]}"
    await save_customer(open_account(local_aws, name).customer)
    await asyncio.to_thread(provision_customer, name)
    yield name
    await remove_customer(name)


async def test_a_test_event_goes_from_s3_to_the_sensor(provisioned: Names, code: str) -> None:
    async with deployments("change-to-notification"), sensing(provisioned.prefix):
        found = await asyncio.to_thread(lambda: list(checkups_changes.customers()))
    assert not [each for each in found if each.check == f"customer {code}"]
    assert any(each.well and "test event went from S3 to the sensor" in each.said for each in found)


async def test_an_event_that_nobody_reads_or_sends_is_told_apart(provisioned: Names, code: str) -> None:
    silent = await asyncio.to_thread(sound, open_book(), [code], seconds=1)
    assert silent == {code: "its queue has it, but no sensor reads it"}
    other = f"{code}-2"
    await asyncio.to_thread(provision_customer, other)
    await asyncio.to_thread(remove_notification, provisioned.changes_bucket, f"customer-{other}")
    lost = await asyncio.to_thread(sound, open_book(), [other], seconds=1)
    assert lost == {other: "S3 did not tell its queue"}


async def test_a_missing_notification_is_named(provisioned: Names, code: str) -> None:
    await asyncio.to_thread(remove_notification, provisioned.changes_bucket, f"customer-{code}")
    found = await asyncio.to_thread(lambda: list(checkups_changes.customers()))
    (mine,) = [each for each in found if each.check == f"customer {code}"]
    assert not mine.well
    assert "notification" in mine.said
    assert "customers load" in mine.mend


async def test_an_account_that_tells_nothing_of_its_mails_is_named(
    provisioned: Names, prefect_server: str, local_aws: str
) -> None:
    name = f"elm-{uuid.uuid4().hex[:6]}"
    elm = open_account(local_aws, name, configuration_set="silent")
    elm.client("sesv2").create_configuration_set(ConfigurationSetName="silent")
    await save_customer(elm.customer)
    found = await asyncio.to_thread(lambda: list(checkups_changes.senders()))
    await remove_customer(name)
    (mine,) = [each for each in found if each.check == f"mail of {name}"]
    assert mine.said.startswith("events: ")
    assert "publishes no SEND, DELIVERY, BOUNCE" in mine.said


@pytest.fixture
def account(provisioned: Names, local_aws: str) -> Account:
    aws.forget()
    return open_account(local_aws)


def test_a_test_mail_goes_out_by_the_customers_own_ses(account: Account) -> None:
    send_test_mail(account.customer, "ann@example.com")
    (mail,) = account.outbox()
    assert mail["to"] == ["ann@example.com"]
    assert mail["account"] == account.customer.account
    assert "test" in mail["text"]


def test_a_test_mail_keeps_to_the_rules(local_aws: str, account: Account) -> None:
    with pytest.raises(BadInput, match="no mail address"):
        send_test_mail(account.customer, "ann")
    closed = open_account(local_aws, "shut", recipients_allow=("*@example.org",))
    with pytest.raises(Refused, match="recipients_allow"):
        send_test_mail(closed.customer, "ann@example.com")
    assert not closed.outbox()
    stranger = open_account(local_aws, "odd", sender="desk@nowhere.example.org")
    ses = stranger.client("sesv2")
    for each in ses.list_email_identities()["EmailIdentities"]:
        ses.delete_email_identity(EmailIdentity=each["IdentityName"])
    with pytest.raises(PostroomError, match="not sent"):
        send_test_mail(stranger.customer, "ann@example.com")
