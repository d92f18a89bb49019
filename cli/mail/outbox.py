"""`postroom mail outbox`: what the local SES has sent."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from cli import say
from postroom.errors import Missing, Unavailable, from_status


def outbox(as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """Show what the local SES has sent. Only a local AWS has an outbox."""
    mails = sent()
    if as_json:
        say.data(mails)
        return
    rows = [(m.get("at"), ", ".join(m.get("to", [])), _shown(m.get("subject")), m.get("outcome")) for m in mails]
    say.table(("at", "to", "subject", "outcome"), rows)


def sent() -> list[dict[str, Any]]:
    """Everything in the outbox, as the local AWS tells it."""
    import httpx

    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        raise Unavailable("only a local AWS has an outbox: start one with `postroom up`, or name it with --data DIR")
    try:
        answer = httpx.get(f"{endpoint.rstrip('/')}/_postroom/outbox", timeout=10, trust_env=False)
    except httpx.TransportError:
        raise Unavailable(f"nothing answers at {endpoint}: is the post room up?") from None
    if answer.status_code == 404:
        raise Missing(f"{endpoint} has no outbox: it is not a local AWS of postroom")
    if answer.status_code != 200:
        raise from_status(answer.status_code, f"the outbox at {endpoint} answered {answer.status_code}")
    mails: list[dict[str, Any]] = answer.json()
    return mails


def _shown(text: Any) -> str:
    return "".join(c for c in str(text or "") if c.isprintable())
