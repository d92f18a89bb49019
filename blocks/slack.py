"""A Slack channel that hears of failures."""

from __future__ import annotations

from typing import Any

from prefect.blocks.core import Block
from prefect.exceptions import ObjectNotFound
from pydantic import Field, SecretStr
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from postroom.errors import PostroomError, RateLimited, from_status
from postroom.health.incidents import Incident
from postroom.health.slack_text import blocks, escape, headline

ALERTS = "alerts"  # name of the block that the house tells of its troubles
CALL_SECONDS = 10


class Slack(Block):
    """Where failures are told."""

    _block_type_name = "Post room Slack"
    _block_type_slug = "postroom-slack"
    _description = "A Slack channel that hears of failed runs, and the bot that writes there."

    channel: str = Field(default=..., title="Channel", description="Name or id of the channel, e.g. #post-room.")
    token: SecretStr = Field(default=..., title="Bot token", description="Token of a bot that may write there.")
    api: str = Field(
        default="https://slack.com/api", title="API", description="Address of Slack's web API; changed only in tests."
    )

    # What `postroom.health.incidents.Channel` asks for. A message is known by the channel's id and its time.

    def post(self, incident: Incident) -> str:
        """Writes the one message of an incident; how it is known from now on."""
        sent = self._call("chat_postMessage", channel=self.channel, unfurl_links=False, **_message(incident))
        return f"{sent['channel']} {sent['ts']}"

    def update(self, incident: Incident) -> None:
        """Rewrites the message of an incident."""
        channel, ts = _known(incident)
        self._call("chat_update", channel=channel, ts=ts, **_message(incident))

    def reply(self, incident: Incident, text: str) -> None:
        """Writes below the message of an incident."""
        channel, ts = _known(incident)
        self._call("chat_postMessage", channel=channel, thread_ts=ts, text=escape(text), unfurl_links=False)

    def _call(self, method: str, **arguments: Any) -> Any:
        client = WebClient(
            token=self.token.get_secret_value(), base_url=self.api.rstrip("/") + "/", timeout=CALL_SECONDS
        )
        try:
            return getattr(client, method)(**arguments)
        except SlackApiError as error:
            raise _ours(error) from None


def _message(incident: Incident) -> dict[str, Any]:
    return {"text": escape(headline(incident)), "blocks": blocks(incident)}


def _known(incident: Incident) -> tuple[str, str]:
    channel, _, ts = (incident.message or "").partition(" ")
    return channel, ts


def _ours(error: SlackApiError) -> PostroomError:
    answer: Any = error.response
    said = f"Slack refused: {answer.get('error', 'without a reason')}"
    if answer.status_code == 429:
        return RateLimited(said, retry_after=float(answer.headers.get("Retry-After", 30)))
    return from_status(answer.status_code if answer.status_code >= 400 else 400, said)


async def alerts_channel() -> Slack | None:
    """The block that the house tells of its troubles; None when there is none."""
    try:
        found: Slack = await Slack.aload(ALERTS)
    except ValueError as error:  # what Prefect raises for a document, or a type, that is not there
        if isinstance(error.__cause__, ObjectNotFound):
            return None
        raise
    return found
