"""What the sensor does, as Prefect events: to be seen in the UI, and to hang automations on."""

from __future__ import annotations

import logging

from prefect.events import emit_event

from workers.orders import Message

log = logging.getLogger("postroom.sensor")


def tell(what: str, message: Message, *, key: str = "", run: str = "", **payload: str) -> None:
    """Emit `postroom.message.{what}`. Never fails: an event is a courtesy, the book is the truth."""
    resource = {"prefect.resource.id": f"postroom.message.{message.id}", "prefect.resource.name": key or message.id}
    related = [{"prefect.resource.id": f"postroom.queue.{message.queue}", "prefect.resource.role": "queue"}]
    if run:
        related.append({"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.role": "flow-run"})
    said = {"queue": message.queue, "receives": message.receives, **({"key": key} if key else {}), **payload}
    try:
        emit_event(f"postroom.message.{what}", resource, related=related, payload=said)
    except Exception as error:
        log.debug("event %s was not emitted: %s", what, error)
