"""Definitions and results in the tasks' bucket: written by condition, never lost."""

import threading
from pathlib import Path
from typing import Any

import pytest

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.errors import BadInput, Conflict, LeaseLost, Missing
from postroom.tasks.definitions import Definitions
from postroom.tasks.drawer import Changed, Drawer
from postroom.tasks.results import Results
from postroom.tasks.task import read_task


@pytest.fixture
def drawer(provisioned: Names) -> Drawer:
    return Drawer(client("s3"), provisioned.tasks_bucket)


def document(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "output": {"n": 1}, "text": "", **more}


def test_a_definition_is_put_listed_read_replaced_and_deleted(drawer: Drawer) -> None:
    shelf = Definitions(drawer)
    assert shelf.names() == []
    assert shelf.put("say", {"prompt": "Say {{input.word}}."}) is True
    assert shelf.put("say", {"prompt": "Say {{input.word}} twice.", "maxTurns": 2}) is False
    assert shelf.names() == ["say"]
    assert shelf.read("say").max_turns == 2
    assert shelf.applied(read_task({"definition": "say", "maxTurns": 4})).max_turns == 4
    shelf.delete("say")
    for gone in (lambda: shelf.read("say"), lambda: shelf.delete("say")):
        with pytest.raises(Missing, match="say"):
            gone()
    with pytest.raises(Missing, match="no task definition"):
        shelf.applied(read_task({"definition": "say"}))


@pytest.mark.parametrize("told", [{}, {"prompt": "x", "name": "y"}, {"prompt": "x", "maxTurns": 0}])
def test_a_bad_definition_is_refused_and_the_old_one_stays(drawer: Drawer, told: dict[str, Any]) -> None:
    shelf = Definitions(drawer)
    shelf.put("say", {"prompt": "Say."})
    with pytest.raises(BadInput):
        shelf.put("say", told)
    with pytest.raises(BadInput, match="no name"):
        shelf.put("../say", {"prompt": "Say."})
    assert shelf.read("say").prompt == "Say."


def test_of_two_who_change_a_definition_at_once_one_is_told(drawer: Drawer, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Definitions(drawer)
    shelf.put("say", {"prompt": "First."})
    found = drawer.find("definitions/say.json")
    shelf.put("say", {"prompt": "Second."})
    monkeypatch.setattr(drawer, "find", lambda key: found)  # what the slower one had read
    with pytest.raises(Conflict):
        shelf.put("say", {"prompt": "Third."})
    monkeypatch.undo()
    assert shelf.read("say").prompt == "Second."


def test_the_first_result_of_a_key_stays_and_later_ones_are_given_it(drawer: Drawer) -> None:
    results = Results("one", drawer)
    assert results.find("task:one") is None
    kept, done = [], threading.Barrier(8)

    def keep(n: int) -> None:
        done.wait()
        kept.append(Results("one", drawer).keep(document("task:one", n=n))["n"])

    threads = [threading.Thread(target=keep, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == 8
    assert set(kept) == {results.find("task:one")["n"]}


def test_a_replay_keeps_the_earlier_result_beside_its_own(drawer: Drawer) -> None:
    results = Results("one", drawer)
    results.keep(document("task:one", n=0))
    assert results.find("task:one:r1") is None
    assert results.keep(document("task:one:r1", n=1))["n"] == 1
    assert results.latest()["n"] == 1
    assert drawer.find("task/logs/one/earlier/task-one.json")[0]["n"] == 0
    with pytest.raises(LeaseLost):
        results.keep(document("task:one", n=9))


def test_a_conditional_write_says_that_it_did_not_hold(drawer: Drawer) -> None:
    drawer.put("a", 1)
    with pytest.raises(Changed):
        drawer.put("a", 2)
    with pytest.raises(Changed):
        drawer.put("a", 2, tag='"0123456789abcdef0123456789abcdef"')
    assert drawer.find("a")[0] == 1


def test_files_are_stored_but_links_are_not_followed(drawer: Drawer, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.md").write_text("hello")
    (tmp_path / "b.md").symlink_to("/etc/passwd")
    (tmp_path / "etc").symlink_to("/etc")
    results = Results("one", drawer)
    assert results.store_files(tmp_path) == (["sub/a.md"], [])
    assert results.names() == ["artifacts/files/sub/a.md"]


def test_a_task_whose_own_name_looks_like_a_replay_can_be_replayed(drawer: Drawer) -> None:
    results = Results("r3", drawer)
    results.keep({"key": "task:r3", "output": 1})
    assert results.keep({"key": "task:r3:r1", "output": 2})["output"] == 2
