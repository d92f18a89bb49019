"""The arrows between the rooms go one way: cli → workers → flows → blocks → postroom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "postroom": set(),
    "blocks": {"postroom"},
    "flows": {"postroom", "blocks"},
    "workers": {"postroom", "blocks", "flows"},
    "deployments": {"postroom", "blocks", "flows", "workers"},
    "cli": {"postroom", "blocks", "flows", "workers", "deployments"},
}
FOREIGN_TO_THE_LIBRARY = {"prefect", "prefect_aws", "typer", "rich", "ministack", "aiobotocore"}


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    wrong = {
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / room).rglob("*.py")
        for name in imports_of(file) & (set(MAY_IMPORT) - MAY_IMPORT[room] - {room})
    }
    assert not wrong


def test_the_library_does_not_know_prefect() -> None:
    wrong = {
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / "postroom").rglob("*.py")
        for name in imports_of(file) & FOREIGN_TO_THE_LIBRARY
    }
    assert not wrong


def test_only_up_and_tests_know_the_local_aws() -> None:
    users = {
        str(file.relative_to(ROOT))
        for room in ("postroom", "blocks", "flows", "workers", "cli")
        for file in (ROOT / room).rglob("*.py")
        if "local_aws" in file.read_text() and "import" in file.read_text().split("local_aws")[0][-80:]
    }
    assert users <= {"cli/up.py", "workers/house.py"}
