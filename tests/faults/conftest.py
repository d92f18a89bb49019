"""One post room under fire, shared by the fault tests that need no other."""

from collections.abc import Iterator

import pytest

from tests.faults.world import World, under_fire
from tests.fixtures.model import Model
from tests.fixtures.room import OnlyRoom


@pytest.fixture(scope="session")
def _under_fire(only_room: OnlyRoom, _model: Model) -> World:
    agent = {"POSTROOM_AGENT": "claude", "POSTROOM_AGENT_URL": _model.url, "POSTROOM_AGENT_TOKEN": _model.key}
    return only_room.enter(under_fire(agent))  # tasks are done by the real CLI; sites say which agent they want


@pytest.fixture
def world(_under_fire: World) -> Iterator[World]:
    """No mail is under way, and no order is left."""
    fresh = World(_under_fire.room)
    yield fresh
    for left in fresh.faults.iterdir():
        left.unlink()
