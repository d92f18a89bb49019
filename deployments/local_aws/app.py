"""The ASGI layer around ministack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ministack.app import app as ministack

from deployments.local_aws import browsing, moves, process, roles, weather
from deployments.local_aws.desk import Desk
from deployments.local_aws.hanging_up import answer_while_listened_to, is_long_poll
from deployments.local_aws.keep.everything import Kept
from deployments.local_aws.ses.layer import Ses


class LocalAws:
    """ministack, and what it lacks: a memory that survives, SES v2, message moves, roles that must exist."""

    def __init__(self, data: Path) -> None:
        self.kept = Kept(data)
        self.ses = Ses(self.kept, process.ACCOUNT)
        self.desk = Desk(self.ses)
        moves.install(self.kept)
        roles.install()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await ministack(scope, receive, send)
        elif scope["path"].startswith("/_postroom/"):
            await self.desk(scope, receive, send)
        elif self.desk.weather.hits(scope):
            await weather.endure(self.desk.weather, self._answer, scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].startswith("/v2/email/") and await self.ses.answers(scope, receive, send):
            return
        if (target := browsing.meant(scope)) is not None:
            await browsing.lead(target, send)
        elif is_long_poll(scope):
            await answer_while_listened_to(self._kept, scope, receive, send)
        else:
            await self._kept(scope, receive, send)

    async def _kept(self, scope: Any, receive: Any, send: Any) -> None:
        await self.kept.serve(ministack, scope, receive, send)
