"""A task as a person submits it, in a whole post room without a model's key."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.fixtures.room import Room, call, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "task.json"


@pytest.mark.timeout(1800)
def test_the_example_task_ends_with_a_valid_result_and_says_who_made_it(post_room: Room) -> None:
    found = post_room.json("task", "submit", str(EXAMPLE), "--wait")
    assert found["status"] == "done"
    jsonschema.validate(found["result"]["output"], json.loads(EXAMPLE.read_text())["outputSchema"])
    assert "recorded example" in found["result"]["note"]
    assert found["attempts"] == 1
    events = post_room.json("task", "events", found["request_id"])
    kinds = [event["event_type"] for event in events if event["event_type"] != "Task Heartbeat"]
    assert kinds == ["Task Pending", "Task Processing Started", "Task Completed"]
    api = f"{post_room.status()['prefect']}/api"
    assert call(f"{api}/flow_runs/{found['run']}")["state"]["name"] == "Completed"

    def heard() -> bool:
        wanted = {"filter": {"event": {"name": ["postroom.task.completed"]}}}
        told = call(f"{api}/events/filter", wanted)["events"]
        return f"postroom.task.{found['request_id']}" in {e["resource"]["prefect.resource.id"] for e in told}

    until(heard, 30, "Prefect to hear of the task's end")


def test_a_task_from_standard_input_is_checked_before_it_is_sent(post_room: Room) -> None:
    command = [str(Path(sys.executable).parent / "postroom"), "task", "submit", "-"]
    told = json.dumps({"name": "n", "prompt": "{{input.a}}", "maxTurn": 1})
    answer = subprocess.run(command, input=told, capture_output=True, text=True, env=post_room.env, timeout=60)
    assert (answer.returncode, answer.stdout) == (65, "")
    assert "maxTurn" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_definitions_are_kept_under_their_names(post_room: Room, tmp_path: Path) -> None:
    file = tmp_path / "greet.json"
    file.write_text(json.dumps({"prompt": "Greet {{input.who}}.", "example": "Hello.", "description": "Greets."}))
    assert post_room("task", "definitions", "put", "greet", str(file)).returncode == 0
    assert "greet" in [each["name"] for each in post_room.json("task", "definitions", "list")]
    task = tmp_path / "task.json"
    task.write_text(json.dumps({"definition": "greet", "input": {"who": "the reader"}}))
    found = post_room.json("task", "submit", str(task), "--wait")
    assert found["result"]["text"] == "Hello."
    assert post_room("task", "definitions", "delete", "greet").returncode == 0
    gone = post_room("task", "submit", str(task))
    assert gone.returncode == 65
    assert "greet" in gone.stderr
