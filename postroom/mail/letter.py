"""A letter: one mail, opened. What every other room sees of a mail."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from postroom.mail import sniff


@dataclass(eq=False)
class Attachment:
    """One attachment; its bytes are decoded when they are first asked for."""

    filename: str
    original_filename: str | None
    declared_type: str
    inline: bool
    content_id: str | None
    decode: Callable[[], bytes] = field(repr=False)

    @cached_property
    def content(self) -> bytes:
        return self.decode()

    @cached_property
    def content_type(self) -> str:
        return sniff.content_type(self.content, self.original_filename or self.filename, self.declared_type)

    @property
    def size(self) -> int:
        return len(self.content)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def as_json(self) -> dict[str, Any]:
        return {
            "filename": self.filename,
            "original_filename": self.original_filename,
            "content_type": self.content_type,
            "size": self.size,
            "sha256": self.sha256,
            "inline": self.inline,
            "content_id": self.content_id,
        }


@dataclass(frozen=True, eq=False)
class Letter:
    """One mail, opened: what it says, who says so, and what came with it."""

    message_id: str
    thread_id: str
    project: str | None
    user: str | None
    from_: str | None
    from_name: str
    to: list[str]
    cc: list[str]
    subject: str
    date: datetime | None
    text: str
    instruction: str
    html: str | None
    attachments: list[Attachment]
    noise: str | None  # why this is nobody's letter: an auto-reply, a bounce, a list, ourselves
    authentication: dict[str, str | None]
    header: list[tuple[str, str]] = field(repr=False)  # as it came, top first
    from_problem: str | None = None  # why `from_` must not be believed
    forwarded: str = ""  # what the sender passes on below the instruction
    reached: str | None = None  # the address of the site that it came to; answers ask to be answered there
    _warnings: list[str] = field(default_factory=list)

    @property
    def auto_reply(self) -> bool:
        return self.noise is not None

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys(self._warnings))

    def values(self, name: str) -> list[str]:
        """All values of a header, topmost first."""
        wanted = name.lower()
        return [value for key, value in self.header if key.lower() == wanted]

    def as_json(self) -> dict[str, Any]:
        """The shape others rely on; attachments are decoded for it."""
        attachments = [attachment.as_json() for attachment in self.attachments]  # may add warnings
        return {
            "message_id": self.message_id,
            "thread_id": self.thread_id,
            "project": self.project,
            "user": self.user,
            "from": self.from_,
            "from_name": self.from_name,
            "to": self.to,
            "cc": self.cc,
            "subject": self.subject,
            "date": self.date.isoformat().replace("+00:00", "Z") if self.date else None,
            "text": self.text,
            "instruction": self.instruction,
            "html": self.html,
            "attachments": attachments,
            "auto_reply": self.auto_reply,
            "authentication": dict(self.authentication),
            "warnings": self.warnings,
        }
