import os
from typing import Any

import pytest

# Before Prefect is imported: a thread that finds no server must not start one behind everybody's back.
os.environ["PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"] = "false"

pytest_plugins = [  # in this order: later ones use earlier ones
    "tests.fixtures.aws",
    "tests.fixtures.graph",
    "tests.fixtures.model",
    "tests.fixtures.prefect",
    "tests.fixtures.sites",
    "tests.fixtures.slack",
    "tests.fixtures.room",
]

# For `pytest -n 2`: whole post rooms, one after the other, in one process; all the rest in the other.
HOUSES = ("tests/faults", "tests/e2e")
UNDER_FIRE = ("steps", "kills", "task_kills", "change_kills", "chaos")  # these share a room; then the calmer ones do
ALONE = "tests/e2e/test_up.py"
FIRST = ("tests/flows", "tests/workers")  # of the rest: what takes longest


def group_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return "houses" if file.startswith(HOUSES) else file


def place_of(nodeid: str) -> tuple[int, str]:
    """Tests of one room stand together; the rest stays as it was shuffled."""
    file = nodeid.partition("::")[0]
    if file in {f"tests/faults/test_{name}.py" for name in UNDER_FIRE}:
        return 0, ""
    if file.startswith(HOUSES):
        return 2 if file == ALONE else 1, ""
    rank = next((n for n, each in enumerate(FIRST) if file.startswith(each)), len(FIRST))
    return 3 + rank, file if rank < len(FIRST) else ""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByRoom(config, log)


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place_of(item.nodeid))
