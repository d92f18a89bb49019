"""The page of benchmarks is made of what was measured, whoever fails."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.__main__ import known, sections, written
from benchmarks.machine import busy, described
from benchmarks.table import Table, percentile


def benchmark(title: str, answer: str | Exception) -> Any:
    def measure() -> str:
        if isinstance(answer, Exception):
            raise answer
        return Table(["what"], [[answer]], ["So it was measured."]).markdown()

    return SimpleNamespace(TITLE=title, measure=measure)


def test_a_failing_benchmark_costs_the_others_nothing_and_keeps_its_last_table() -> None:
    before, _ = written("", {"a": benchmark("A", "old"), "b": benchmark("B", "old")}, ["a", "b"])
    broken = {"a": benchmark("A", RuntimeError("no server, password=hunter2hunter2")), "b": benchmark("B", "new")}
    page, failed = written(before, broken, ["a", "b"])
    page, failed = written(page, broken, ["a", "b"])
    assert failed == ["a"]
    assert "| old |" in sections(page)["A"]
    assert sections(page)["A"].count("Not measured this time (RuntimeError: no server") == 1
    assert "hunter2" not in page
    assert "| new |" in sections(page)["B"]
    assert "| old |" not in sections(page)["B"]


def test_what_is_not_asked_for_stays_as_it_was() -> None:
    before, _ = written("", {"a": benchmark("A", "old"), "b": benchmark("B", "old")}, ["a", "b"])
    page, failed = written(before, {"a": benchmark("A", "new"), "b": benchmark("B", "new")}, ["b"])
    assert failed == []
    assert sections(page)["A"] == sections(before)["A"]
    assert "| new |" in sections(page)["B"]


def test_every_benchmark_has_a_title_of_its_own() -> None:
    titles = [module.TITLE for module in known().values()]
    assert "Light worker" in titles
    assert len(set(titles)) == len(titles)


def test_the_machine_is_described_without_its_name() -> None:
    import platform

    assert "cores" in described()
    assert platform.node() not in described()


def test_a_busy_machine_is_told_and_a_quiet_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0.0, 0.0))
    page, _ = written("", {"a": benchmark("A", "new")}, ["a"])
    assert "busy with other work (load 1000.0" in sections(page)["A"]
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    assert busy() is None


@pytest.mark.parametrize(("share", "value"), [(0.5, 2), (0.95, 4), (0.25, 1), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], share) == value


def test_a_cell_can_not_break_the_table() -> None:
    assert Table(["a"], [["x|y"]]).markdown().splitlines()[-1] == r"| x\|y |"
