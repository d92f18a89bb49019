"""dead-letters and health-check as flows: real Prefect server, real local AWS, a Slack that listens."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings
from pydantic import SecretStr

from blocks.slack import ALERTS, Slack
from flows.dead_letters import dead_letters
from flows.health_check import health_check
from postroom.aws.names import Names
from postroom.dead_letters.register import Register
from postroom.health.facts import sensor_lives
from postroom.ledger.book import Book, open_book
from tests.fixtures.slack import TOKEN, FakeSlack
from tests.postroom.test_dead_letters import bury


@pytest.fixture
def book(prefect_server: str, provisioned: Names) -> Iterator[Book]:
    with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: False}):  # its thread would outlive the server
        yield open_book()


@pytest.fixture
async def channel(prefect_server: str, slack: FakeSlack) -> AsyncIterator[FakeSlack]:
    await Slack(channel="#post-room", token=SecretStr(TOKEN), api=slack.url).asave(ALERTS, overwrite=True)
    yield slack
    await Slack.adelete(ALERTS)


async def artifact(key: str) -> str:
    async with get_client() as client:
        found = await client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key])))
    return str(max(found, key=lambda each: each.created).data)


async def test_dead_letters_are_told_once_and_over_when_somebody_decided(book: Book, channel: FakeSlack) -> None:
    queue = book.names.tasks_queue
    first = bury(queue, "{}", reason="<!here> torn", key="task:one", receives="3")
    for _ in range(2):
        await dead_letters()
    bury(queue, "{}", reason="torn too", key="task:two", receives="10")
    state = await dead_letters(return_state=True)
    assert (state.name, state.message) == ("Needs attention", "1 new, 2 wait for a decision")
    [message] = channel.posted
    assert message["text"] == f"🟠 2 dead letters of {queue}"
    detail = message["blocks"][1]["text"]
    assert detail["type"] == "plain_text"
    assert "torn too (received 10 times)" in detail["text"]
    assert first in await artifact("dead-letters")
    for letter in Register(book).listed():
        Register(book).dismiss(letter.id)
    state = await dead_letters(return_state=True)
    assert (state.name, state.message) == ("Completed", "0 new, 0 wait for a decision")
    assert message["text"] != channel.posted[0]["text"]
    assert channel.posted[0]["text"].startswith("✅ Recovered")
    assert len(channel.posted) == 1


async def test_the_health_check_finds_a_silent_sensor_and_notes_its_recovery(book: Book, channel: FakeSlack) -> None:
    found = await health_check()
    assert "sensor" in found
    texts = [message["text"] for message in channel.posted]
    assert "🔴 No sensor has ever reported" in texts
    sensor_lives(book)
    assert "sensor" not in await health_check()
    assert "✅ Recovered: No sensor has ever reported" in [message["text"] for message in channel.posted]
    assert len(channel.posted) == len(texts)
    assert book.names.mail_queue in await artifact("queues")


async def test_without_a_slack_block_the_check_still_shows_what_it_found(book: Book, slack: FakeSlack) -> None:
    with pytest.raises((ObjectNotFound, ValueError)):
        await Slack.aload(ALERTS)
    state: Any = await health_check(return_state=True)
    assert state.name == "Needs attention"
    assert "No sensor has ever reported" in await artifact("incidents")
    assert slack.calls == []
