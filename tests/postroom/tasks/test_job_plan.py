"""What makes a job, and how what makes none is refused."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import BadInput
from postroom.ledger import Row, State
from postroom.tasks.job_check import check_tasks
from postroom.tasks.job_picture import mermaid
from postroom.tasks.job_plan import Plan, Step, checked, read_plan, read_steps, request_id
from postroom.tasks.job_state import Stands, in_order, standing


def task(task_id: Any, *wants: str, **more: Any) -> dict[str, Any]:
    return {"id": task_id, "prompt": "do it", "dependsOn": list(wants), **more}


def plan(*tasks: dict[str, Any]) -> Plan:
    return read_plan({"tasks": list(tasks)}, job_id="j1")


def rows(**states: State) -> dict[str, Row]:
    return {name: Row(f"task:{name}", "task", state, reason="torn") for name, state in states.items()}


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([task("a", "c"), task("b", "a"), task("c", "b")], "no task can begin: a → c → b → a is a cycle"),
        ([task("r"), task("a", "r", "b"), task("b", "a")], "tasks: a → b → a is a cycle"),
        ([task("a", "a")], "a → a is a cycle"),
        ([task("a"), task("b", "a", "nobody")], "tasks[1].dependsOn[1]: there is no task 'nobody'"),
        ([task("a"), task("b"), task("a")], "tasks[2].id: 'a' is already the id of tasks[0]"),
        ([task("a b")], "tasks[0].id: 'a b' is not 1-128 characters"),
        ([task("a" * 129)], "tasks[0].id"),
        ([task("ä")], "tasks[0].id"),
        ([{"prompt": "x"}], "tasks[0].id: is missing"),
        ([task(7)], "tasks[0].id: '7'"),
        ([task("a") | {"dependsOn": "b"}], "tasks[0].dependsOn: must be a list"),
        ([task("a", requestId="x")], "tasks[0].requestId: is given by the job itself"),
        ([task("a"), task("b", prompt="{{parents.a.x}}")], "tasks[1].prompt: {{parents.a.x}} names no task"),
        ([task(f"t{n}") for n in range(51)], "51 are too many"),
        ([], "at least one task"),
        (["a"], "tasks[0]: must be a JSON object"),
    ],
)
def test_a_job_that_can_not_be_carried_out_is_refused_and_the_place_named(tasks: list[Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        plan(*tasks)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "JSON object"),
        ({"tasks": [task("a")], "jobId": "a/b"}, "jobId 'a/b'"),
        ({"tasks": [task("a")], "jobId": "task"}, "kept for a kind of work"),
        ({"tasks": [task("a")], "name": ""}, "name"),
        ({"tasks": [task("a")], "task": []}, "task: not known"),
    ],
)
def test_a_document_that_is_no_job_is_refused(document: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_plan(document, job_id="j1")


def test_fifty_tasks_are_a_job() -> None:
    assert len(plan(*(task(f"t{n}") for n in range(50))).steps) == 50


def test_request_ids_are_stable_valid_and_never_alike() -> None:
    assert request_id("a-b", "c") != request_id("a", "b-c")
    long = request_id("j" * 128, "t" * 128)
    assert long == request_id("j" * 128, "t" * 128)
    assert len(long) <= 256
    assert long != request_id("j" * 128, "t" * 127)


def test_a_dependent_is_ready_when_all_its_parents_are_completed_and_only_then() -> None:
    job = plan(task("a"), task("b"), task("c", "a", "b"))
    assert standing(job, {}).tasks == {"a": Stands.READY, "b": Stands.READY, "c": Stands.WAITING}
    half = standing(job, rows(a=State.DONE, b=State.WORKING))
    assert half.tasks["c"] is Stands.WAITING
    assert standing(job, rows(a=State.DONE, b=State.DONE)).tasks["c"] is Stands.READY


def test_a_failure_blocks_all_that_waits_for_it_and_nothing_else() -> None:
    job = plan(task("a"), task("bad"), task("c", "bad"), task("d", "c", "a"), task("e", "a"))
    seen = standing(job, rows(a=State.DONE, bad=State.FAILED))
    assert seen.those(Stands.BLOCKED) == ["c", "d"]
    assert seen.those(Stands.READY) == ["e"]
    assert not seen.over
    over = standing(job, rows(a=State.DONE, bad=State.CANCELLED, e=State.DONE))
    assert over.over
    assert not over.well
    assert over.reasons() == {"bad": "torn"}


def test_the_picture_shows_states_and_arrows_and_no_markup_of_the_sender() -> None:
    job = plan(task("a"), task("b", "a"))
    drawn = mermaid(standing(job, rows(a=State.DONE)))
    assert '["✓ a<br/>completed"]:::completed' in drawn
    assert "t0 --> t1" in drawn


@given(st.data())
def test_any_graph_is_either_put_in_order_or_refused_for_a_real_cycle(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    names = [f"t{n}" for n in range(size)]
    arrows = data.draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=16))
    wants = {name: tuple(dict.fromkeys(b for a, b in arrows if a == name)) for name in names}
    steps = [Step(name, wants[name]) for name in names]
    try:
        job = Plan("j", "j", checked(steps))
    except BadInput as refused:
        circle = str(refused).removesuffix(" is a cycle").split(": ")[-1].split(" → ")
        assert circle[0] == circle[-1]
        assert all(b in wants[a] for a, b in itertools.pairwise(circle))
        return
    order = in_order(job)
    assert sorted(order) == names
    assert all(order.index(b) < order.index(a) for a in names for b in wants[a])


def test_steps_come_back_as_they_were_written() -> None:
    steps = read_steps([task("a"), task("b", "a", input={"n": [1, 2.5, None]}, example={"x": "é"})])
    assert read_steps([step.as_json() for step in steps]) == steps


def test_the_example_is_a_job(provisioned: object) -> None:
    document = json.loads((Path(__file__).parents[3] / "examples" / "job.json").read_text())
    job = read_plan(document, job_id="example")
    check_tasks(job.steps)
    assert standing(job, {}).those(Stands.READY) == ["sort", "facts"]
