"""SQS StartMessageMoveTask and its siblings: dead letters go back to where they came from."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from ministack.services import sqs

from deployments.local_aws.keep.everything import Kept
from deployments.local_aws.keep.stores import Stores

OPERATIONS = ("StartMessageMoveTask", "ListMessageMoveTasks", "CancelMessageMoveTask", "ListDeadLetterSourceQueues")


class Moves:
    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.tasks: dict[str, dict[str, Any]] = {}  # handle → task
        self.written = Stores(kept.journal, "move", {"tasks": self.tasks})
        self.written.restore()
        for task in self.tasks.values():
            if task["Status"] in ("RUNNING", "CANCELLING"):
                task |= {"Status": "FAILED", "FailureReason": "The local AWS was stopped."}
        self.running: set[asyncio.Task[None]] = set()

    def start(self, data: dict[str, Any], _: str) -> dict[str, Any]:
        source = self._queue(data.get("SourceArn"))
        to = data.get("DestinationArn")
        if to is not None:
            self._queue(to)
        arn = source["attributes"]["QueueArn"]
        if not sources_of(arn):
            raise sqs._Err("InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
        if any(task["Status"] == "RUNNING" and task["SourceArn"] == arn for task in self.tasks.values()):
            raise sqs._Err("UnsupportedOperation", "There is already a task running for this queue.")
        pace = data.get("MaxNumberOfMessagesPerSecond")
        if pace is not None and not 1 <= int(pace) <= 500:
            raise sqs._Err("InvalidParameterValue", "MaxNumberOfMessagesPerSecond must be between 1 and 500.")
        handle = str(uuid.uuid4())
        task: dict[str, Any] = {
            "Status": "RUNNING",
            "SourceArn": arn,
            "ApproximateNumberOfMessagesMoved": 0,
            "ApproximateNumberOfMessagesToMove": len(source["messages"]),
            "StartedTimestamp": int(time.time() * 1000),
        }
        task |= {"DestinationArn": to} if to else {}
        task |= {"MaxNumberOfMessagesPerSecond": int(pace)} if pace else {}
        self.tasks[handle] = task
        if pace is None:
            while self._move_one(task):
                pass
            self.written.collect()
        else:
            self.written.collect()
            running = asyncio.get_running_loop().create_task(self._move_slowly(task, 1 / int(pace)))
            self.running.add(running)
            running.add_done_callback(self.running.discard)
        return {"TaskHandle": handle}

    async def _move_slowly(self, task: dict[str, Any], pause: float) -> None:
        while task["Status"] == "RUNNING" and self._move_one(task):
            self.written.collect()
            self.kept.write()
            await asyncio.sleep(pause)
        if task["Status"] == "CANCELLING":
            task["Status"] = "CANCELLED"
        self.written.collect()
        self.kept.write()

    def _move_one(self, task: dict[str, Any]) -> bool:
        """Moves the oldest visible message; False, with the task ended, when there is none that can be."""
        source, now = self._queue(task["SourceArn"]), time.time()
        waiting = [message for message in source["messages"] if message["visible_at"] <= now]
        if not waiting or task["ApproximateNumberOfMessagesMoved"] >= task["ApproximateNumberOfMessagesToMove"]:
            task["Status"] = "COMPLETED"
            return False
        message = waiting[0]
        origin = task.get("DestinationArn") or message.get("sys", {}).get("DeadLetterQueueSourceArn")
        target = sqs._queue_by_arn(origin) if origin else None
        if target is None:
            task["Status"] = "FAILED"
            task["FailureReason"] = (
                "CouldNotDetermineMessageSource" if not origin else "AWS.SimpleQueueService.NonExistentQueue"
            )
            return False
        fresh = {"id": str(uuid.uuid4()), "sent_at": now, "visible_at": now, "receive_count": 0}
        fresh |= {"receipt_handle": None, "first_receive_at": None}
        system = {name: value for name, value in message["sys"].items() if name != "DeadLetterQueueSourceArn"}
        target["messages"].append({**message, **fresh, "sys": {**system, "SentTimestamp": str(int(now * 1000))}})
        source["messages"] = [each for each in source["messages"] if each is not message]
        task["ApproximateNumberOfMessagesMoved"] += 1
        return True

    def list(self, data: dict[str, Any], _: str) -> dict[str, Any]:
        arn = self._queue(data.get("SourceArn"))["attributes"]["QueueArn"]
        most = int(data.get("MaxResults") or 1)
        if not 1 <= most <= 10:
            raise sqs._Err("InvalidParameterValue", "MaxResults must be between 1 and 10.")
        mine = [(handle, task) for handle, task in self.tasks.items() if task["SourceArn"] == arn]
        newest = reversed(mine)  # entered in the order of their start
        shown = [task | ({"TaskHandle": handle} if task["Status"] == "RUNNING" else {}) for handle, task in newest]
        return {"Results": shown[:most]}

    def cancel(self, data: dict[str, Any], _: str) -> dict[str, Any]:
        task = self.tasks.get(data.get("TaskHandle") or "")
        if task is None:
            raise sqs._Err("ResourceNotFoundException", "Task does not exist.", 404)
        if task["Status"] != "RUNNING":
            raise sqs._Err("UnsupportedOperation", f"Only active tasks can be cancelled; this is {task['Status']}.")
        task["Status"] = "CANCELLING"
        self.written.collect()
        return {"ApproximateNumberOfMessagesMoved": task["ApproximateNumberOfMessagesMoved"]}

    def sources(self, data: dict[str, Any], url: str) -> dict[str, Any]:
        queue = sqs._get_q(data.get("QueueUrl") or url, "sqs:ListDeadLetterSourceQueues")
        found = sources_of(queue["attributes"]["QueueArn"])
        return {"queueUrls": [sqs._externalize_url(each["url"]) for each in found]}

    def _queue(self, arn: Any) -> dict[str, Any]:
        queue = sqs._queue_by_arn(arn) if isinstance(arn, str) else None
        if queue is None:
            raise sqs._Err(
                "ResourceNotFoundException", "The resource that you specified for the ARN doesn't exist.", 404
            )
        return queue  # type: ignore[no-any-return]


def sources_of(dead_letters: str) -> list[dict[str, Any]]:
    """Queues whose dead letters go to this one."""
    return [
        queue
        for queue in sqs._queues.all_values()
        if f'"{dead_letters}"' in queue["attributes"].get("RedrivePolicy", "")
    ]


def install(kept: Kept) -> Moves:
    moves = Moves(kept)
    answers = (moves.start, moves.list, moves.cancel, moves.sources)
    sqs._HANDLERS.update(zip(OPERATIONS, answers, strict=True))
    return moves
