"""All that is kept: filled in at start, written before each answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ministack.services import eventbridge, iam, sns, sts

from deployments.local_aws.keep.journal import Journal
from deployments.local_aws.keep.objects import Objects
from deployments.local_aws.keep.queues import Queues
from deployments.local_aws.keep.request import Request, recognise
from deployments.local_aws.keep.stores import Stores, scoped_stores
from deployments.local_aws.keep.tables import Tables

# One hot action that changes no configuration.
_PASSING = {"PutEvents"}


class Kept:
    """ministack with a memory: what it has answered, it still knows after kill -9."""

    def __init__(self, data: Path) -> None:
        self.journal = Journal(data / "state.sqlite")
        self.objects = Objects(self.journal, data / "objects")
        self.parts: tuple[Queues, Objects, Tables] = (Queues(self.journal), self.objects, Tables(self.journal))
        self.small = {
            "iam": Stores(self.journal, "iam", scoped_stores(iam)),
            "sts": Stores(self.journal, "sts", {"_sessions": sts._sessions}),
            "sns": Stores(self.journal, "sns", scoped_stores(sns, ("_sms_messages",))),
            "events": Stores(self.journal, "events", scoped_stores(eventbridge, ("_events_log",))),
        }
        for store in (*self.parts, *self.small.values()):
            store.restore()
        for part in self.parts:
            part.watch()
        self.journal.commit()

    def write(self, request: Request | None = None) -> None:
        """Everything that has happened until now is on disk when this returns."""
        if request and request.service in self.small and request.action not in _PASSING:
            self.small[request.service].collect()
        for part in self.parts:
            part.collect(request)
        self.journal.commit()
        self.objects.tidy()

    async def serve(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """One request through the app, its effects written before its answer."""
        request = recognise(scope)
        remember = request.service in ("sqs", "dynamodb")

        async def heard() -> Any:
            message = await receive()
            if remember and message["type"] == "http.request":
                request.chunks.append(message.get("body", b""))
            return message

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.write(request)
            await send(message)

        await app(scope, heard, answer)
