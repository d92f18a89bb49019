"""`postroom task submit`: a task put into the queue."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from cli import say, whereabouts
from cli.task import following
from cli.task.reading import json_object
from postroom.errors import PostroomError
from postroom.tasks.storable import as_message


def submit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The task as JSON; - for standard input.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended, and print the outcome.")] = False,
    wait_seconds: Annotated[float, typer.Option("--wait-seconds", help="How long to wait at most.")] = 1800,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it; send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Check a task and put it into the queue; prints its request_id."""
    told = json_object(file)
    whereabouts.require()
    request_id = checked(told)
    if not dry_run:
        send(told, request_id)
        if wait:
            outcome = following.wait(request_id, wait_seconds)
            following.tell(outcome, as_json)
            raise typer.Exit(following.exit_code(outcome))
    if as_json:
        say.data({"request_id": request_id, "sent": not dry_run})
    else:
        say.text(request_id)


def checked(told: dict[str, Any]) -> str:
    """Its request id, given or new; an error names everything that would make it fail for certain."""
    from postroom.tasks.definitions import Definitions
    from postroom.tasks.task import job_of, parents_named, read_task

    as_message(told, "the task")  # what the sensor could not read would be nobody's task, and never end
    task = read_task(told)
    request_id = task.request_id or f"t-{uuid.uuid4().hex}"
    whole = Definitions().applied(task)
    if not parents_named(whole):  # what parents answer is not known yet
        job_of(whole, request_id, parents={})
    return request_id


def send(told: dict[str, Any], request_id: str) -> str:
    """The id of the message that asks for the task."""
    from postroom.aws.clients import client
    from postroom.aws.names import Names
    from postroom.errors import classify
    from postroom.settings import settings

    sqs = client("sqs")
    try:
        answer = sqs.send_message(
            QueueUrl=sqs.get_queue_url(QueueName=Names(settings().prefix).tasks_queue)["QueueUrl"],
            MessageBody=as_message(told, "the task"),
            MessageAttributes={"requestId": {"DataType": "String", "StringValue": request_id}},
        )
    except PostroomError:
        raise
    except Exception as error:
        raise classify(error) from error
    return str(answer["MessageId"])
