"""kill -9 of a run's process at five moments, of the sensor and of the worker: each task is done exactly once."""

import json
import os
import random
import signal
import threading

import boto3
import psutil
import pytest

from tests.faults.world import World
from tests.fixtures.model import Model, say
from tests.fixtures.room import Room, until

SEEDS = [int(seed) for seed in os.environ.get("POSTROOM_TEST_SEEDS", "1").split()]
MOMENTS = ("begun", "agent", "answered", "kept", "done")
PAID = {"begun": 1, "agent": 1, "answered": 2, "kept": 1, "done": 1}  # answers that were waited for to their end
PATIENCE = 400  # seconds; a crowded machine starts a process in a minute
AGENTS = ("postroom.agent.child", "/claude", "bwrap")


class Watch:
    """Remembers every process of an agent below the house."""

    def __init__(self, room: Room) -> None:
        self._room, self._stop = room, threading.Event()
        self.seen: dict[int, psutil.Process] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(0.2):
            try:
                house = psutil.Process(json.loads((self._room.data / "house.json").read_text())["pid"])
                for one in house.children(recursive=True):
                    if one.pid not in self.seen and any(word in " ".join(one.cmdline()) for word in AGENTS):
                        self.seen[one.pid] = one
            except (psutil.Error, OSError, ValueError, TypeError):
                continue

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def left(self) -> list[psutil.Process]:
        groups = set(self.seen)
        found = [one for one in self.seen.values() if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        for one in psutil.process_iter():
            try:
                if os.getpgid(one.pid) in groups and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
            except (ProcessLookupError, psutil.Error):
                continue
        return found


class Aws:
    """The local AWS, as somebody outside sees it: a process per question would slow down what is watched."""

    def __init__(self, url: str) -> None:
        keys = {"aws_access_key_id": "000000000000", "aws_secret_access_key": "x", "region_name": "eu-west-1"}
        self.sqs = boto3.client("sqs", endpoint_url=url, **keys)
        self.dynamodb = boto3.client("dynamodb", endpoint_url=url, **keys)
        self.queue = self.sqs.get_queue_url(QueueName="postroom-tasks")["QueueUrl"]

    def submit(self, request_id: str, die: str = "") -> None:
        told = {"name": "say", "prompt": "Say {{input.text}}.", "input": {"text": request_id, "die": die}}
        self.sqs.send_message(
            QueueUrl=self.queue,
            MessageBody=json.dumps(told),
            MessageAttributes={"requestId": {"DataType": "String", "StringValue": request_id}},
        )

    def state(self, request_id: str) -> str:
        key = {"key": {"S": f"task:{request_id}"}}
        row = self.dynamodb.get_item(TableName="postroom-leases", Key=key, ConsistentRead=True).get("Item", {})
        return str(row.get("state", {}).get("S", "missing"))

    def left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_a_task_is_done_exactly_once(world: World, model: Model, seed: int) -> None:
    room = world.room
    chance = random.Random(seed)
    model.script(*(say("Said.", stall=chance.uniform(1, 2)) for _ in range(60)))
    aws, watch = Aws(room.urls()["aws"]), Watch(room)
    tasks = {f"s{seed}-{moment}": moment for moment in chance.sample(MOMENTS, len(MOMENTS))}
    bystanders = {f"s{seed}-by-{part}": part for part in chance.sample(("sensor", "heavy"), 2)}

    def done(*request_ids: str) -> bool:
        return all(aws.state(request_id) == "done" for request_id in request_ids)

    waiting = list(tasks)
    while waiting:  # a few at a time: each is seconds of CPU, twice
        pair, waiting = waiting[:3], waiting[3:]
        for request_id in pair:
            aws.submit(request_id, tasks[request_id])
        until(lambda pair=pair: done(*pair), PATIENCE, f"{pair} to be done")
    for request_id, part in bystanders.items():
        aws.submit(request_id)
        until(lambda request_id=request_id: asked(model, request_id), PATIENCE, f"{request_id} to be worked on")
        os.kill(room.pids()[part], signal.SIGKILL)
        until(lambda request_id=request_id: done(request_id), PATIENCE, f"{request_id} to be done")

    died = {file.stem for file in world.faults.glob("*.died")}
    assert died == {f"{request_id}-{moment}" for request_id, moment in tasks.items()}
    for request_id in (*tasks, *bystanders):
        events = [event["event_type"] for event in room.json("task", "events", request_id)]
        assert events.count("Task Completed") == 1, (request_id, events)
        assert room.json("task", "show", request_id)["result"]["text"] == "Said."
    for request_id, moment in tasks.items():
        if moment != "agent":  # it died with its request on the way: that one may or may not have been heard
            assert asked(model, request_id) == PAID[moment], moment
    until(lambda: aws.left() == 0, 60, "the queue to be empty")
    until(lambda: not watch.left(), 30, "the end of every agent")
    watch.close()
    assert len(watch.seen) >= len(tasks)
    assert not list((room.data / "tasks").iterdir())


def asked(model: Model, request_id: str) -> int:
    return sum(f"{request_id}\\n" in request.said for request in list(model.requests))
