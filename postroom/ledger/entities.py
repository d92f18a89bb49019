"""Whom events speak of: from a job and a key in the book to an entity such as `MAIL#id`."""

from __future__ import annotations

import re
from typing import Any

from postroom.ledger.events import Event

ENTITIES = {"mail": ("MAIL", "email:"), "task": ("TASK", "task:"), "change": ("CHANGE", "change:")}
NOUNS = {"mail": "Mail", "task": "Task", "change": "Change", "edit": "Edit"}


def entity_of(job: str, key: str) -> str:
    """Whom events about a key are filed under: `email:x:r2` is `MAIL#x`."""
    noun, prefix = ENTITIES.get(job, (job.upper(), f"{job}:"))
    rest = re.sub(r":r\d+$", "", key.removeprefix(prefix))
    return f"{noun}#{rest.split(':')[0] if job in ('change', 'edit') else rest}"


def event_about(job: str, key: str, what: str, **properties: Any) -> Event:
    """An event such as `Mail Failed`, about the thing that a key names."""
    return Event(f"{NOUNS.get(job, job.title())} {what}", entity_of(job, key), job, {"key": key, **properties})
