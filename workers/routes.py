"""Which queue leads where. A new kind of message is one line in the table, and one function in unpack.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from postroom.aws.names import Names
from postroom.delivery import ses_events
from postroom.settings import Settings
from workers import unpack
from workers.orders import Message, Parcel

ANY = "*"  # at the end of a queue's name: every queue that begins so, found while the sensor runs


@dataclass(frozen=True)
class Route:
    """A queue and what its messages become: runs of a deployment, or a call in the sensor itself."""

    job: str
    queue: str
    deployment: str = ""
    unpack: Callable[..., Parcel] | None = None  # (message, deployment[, what stood for ANY])
    hold: int | None = None  # messages held at once; None: read ahead freely
    act: Callable[[Message], Awaitable[None]] | None = None  # instead of a run; its return ends the message

    @property
    def prefix(self) -> str | None:
        """What the names of its queues begin with, when there are many."""
        return self.queue.removesuffix(ANY) if self.queue.endswith(ANY) else None

    def open(self, message: Message) -> Parcel:
        """The message, unpacked."""
        assert self.unpack is not None
        if self.prefix is None:
            return self.unpack(message, self.deployment)
        return self.unpack(message, self.deployment, message.queue.removeprefix(self.prefix))


def routes(s: Settings) -> tuple[Route, ...]:
    """The table. Mail is read ahead freely, or a newer mail could not overtake; tasks wait in their queue."""
    names = Names(s.prefix)
    return (
        Route("mail", names.mail_queue, "email-to-site", unpack.mail),
        Route("task", names.tasks_queue, "agent-task", unpack.task, hold=2 * s.task_concurrency),
        Route("change", names.changes_queue(ANY), "change-to-notification", unpack.change),
        Route("ses", names.ses_events_queue, act=ses_events.act),
    )
