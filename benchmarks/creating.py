"""Two ways for a run to come into being: by the API alone, and by a message that the sensor finds."""

from __future__ import annotations

import time
import uuid
from typing import Any

from prefect import flow, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

from postroom.aws.clients import client
from postroom.aws.names import Names
from postroom.settings import settings

PATIENCE_SECONDS = 90.0


@flow(name="email-to-site")
def letter(bucket: str = "", key: str = "", message_id: str = "") -> None:
    """Stands for the flow of mails; nobody executes it here."""


class Creating:
    """Creates runs of one deployment, and counts them."""

    def __init__(self) -> None:
        self._prefect = get_client(sync_client=True)
        flow_id = self._prefect.create_flow(letter)
        self._deployment = self._prefect.create_deployment(flow_id, "email-to-site")

    def by_loop(self, number: int) -> float:
        """Runs per second."""
        began = time.monotonic()
        for _ in range(number):
            key = f"email:{uuid.uuid4().hex}"
            self._prefect.create_flow_run_from_deployment(
                self._deployment, parameters={"message_id": key}, tags=["job:mail", f"key:{key}"], idempotency_key=key
            )
        return number / (time.monotonic() - began)

    def by_sensor(self, bodies: list[str]) -> float:
        """Messages per second, from sending the first until there is a run for each."""
        sqs: Any = client("sqs")
        url = sqs.get_queue_url(QueueName=Names(settings().prefix).mail_queue)["QueueUrl"]
        wanted, began = self._count() + len(bodies), time.monotonic()
        for at in range(0, len(bodies), 10):
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[at : at + 10])]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)
        while (there := self._count()) < wanted:
            if time.monotonic() - began > PATIENCE_SECONDS:
                raise TimeoutError(f"{wanted - there} of {len(bodies)} messages became no run")
            time.sleep(0.05)
        return len(bodies) / (time.monotonic() - began)

    def _count(self) -> int:
        mine = DeploymentFilter(id=DeploymentFilterId(any_=[self._deployment]))
        return self._prefect.count_flow_runs(deployment_filter=mine)
