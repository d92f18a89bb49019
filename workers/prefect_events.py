"""Every event of the book as a Prefect event too, so that automations can act on it.

`Task Processing Failed` about `TASK#x` is `postroom.task.processing-failed` about `postroom.task.x`. Like
the bus it hears each at least once; a repeated one has the same id.
"""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime

from prefect.events import emit_event

from postroom.ledger import Event

log = logging.getLogger("postroom.sensor")
_NAMESPACE = uuid.UUID("6f1c2f0e-3f5b-4a57-9a43-5d7d3c1f9b10")
_MOST = 2000  # characters of one property; the event table has the whole


def tell_prefect(event: Event) -> None:
    """Hand the event to Prefect's own background sender; a Prefect that is away does not hold up the bus."""
    noun, _, what = event.event_type.partition(" ")
    kind, _, name = event.entity.partition("#")
    try:
        emit_event(
            f"postroom.{noun.lower()}.{what.lower().replace(' ', '-')}",
            resource={
                "prefect.resource.id": f"postroom.{kind.lower()}.{name}",
                "prefect.resource.name": name,
                "postroom.tenant": event.tenant,
                "postroom.app": event.app,
            },
            occurred=datetime.fromtimestamp(event.at_ms / 1000, UTC),
            payload={
                "event_id": event.event_id,
                "event_type": event.event_type,
                **{k: v[:_MOST] if isinstance(v, str) else v for k, v in event.properties.items()},
            },
            id=uuid.uuid5(_NAMESPACE, event.event_id),
        )
    except Exception as error:
        log.warning("Prefect was not told of %s (%s): %s", event.event_type, event.entity, error)
