from typing import Any

import pytest

pytest_plugins = [  # in this order: later ones use earlier ones
    "tests.fixtures.aws",
    "tests.fixtures.graph",
    "tests.fixtures.model",
    "tests.fixtures.prefect",
    "tests.fixtures.sites",
    "tests.fixtures.slack",
    "tests.fixtures.room",
]

# For `pytest -n 2`: tests that share a whole post room run in one process; what takes longest comes first.
UNDER_FIRE, POST_ROOM = "under fire", "post room"
ROOMS = {
    **{
        f"tests/faults/test_{name}.py": UNDER_FIRE for name in ("change_kills", "chaos", "kills", "steps", "task_kills")
    },
    **{f"tests/e2e/test_{name}.py": POST_ROOM for name in ("change", "claude_edits", "mail_to_site", "task")},
    "tests/faults/test_preemption.py": POST_ROOM,
}
FIRST = (UNDER_FIRE, POST_ROOM, "tests/e2e", "tests/flows", "tests/workers")


def group_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return ROOMS.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByRoom(config, log)


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> tuple[int, str]:
        group = group_of(item.nodeid)
        rank = next((n for n, each in enumerate(FIRST) if group.startswith(each)), len(FIRST))
        return rank, group if rank < len(FIRST) else ""

    items.sort(key=place)
