"""Blocks in Prefect: all our types, and the documents that come from settings.

Slack is written by an automation, and that wants a Webhook block: it is made from ours, so that an
operator edits one block only (and deploys again).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from prefect.blocks.core import Block
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from blocks.catalogue import BLOCKS
from blocks.graph import CALENDAR, Graph
from blocks.slack import ALERTS, Slack
from postroom.aws.resource import Step
from postroom.meetings.access import access_of
from postroom.settings import Settings

WEBHOOK = "postroom-alerts"


async def deploy(client: PrefectClient, settings: Settings, *, dry_run: bool) -> list[Step]:
    """Types and documents, created and mended."""
    steps = [await _type(client, kind, dry_run) for kind in BLOCKS]
    if access := access_of(settings):
        steps.append(await _document(client, Graph.of(access), CALENDAR, dry_run))
    if slack := _slack(settings):
        steps.append(await _document(client, slack, ALERTS, dry_run))
    stored = slack if slack and dry_run else await _load(client, Slack, ALERTS)
    if stored:
        await Webhook.aregister_type_and_schema(client=client)
        steps.append(await _document(client, _webhook(stored), WEBHOOK, dry_run))
    return steps


async def slack_webhook(client: PrefectClient, settings: Settings) -> tuple[UUID, str] | None:
    """The webhook that reaches Slack and the channel to name; None when there is no Slack block."""
    slack = await _load(client, Slack, ALERTS)
    if slack is None:
        return None
    try:
        document = await client.read_block_document_by_name(WEBHOOK, "webhook")
    except ObjectNotFound:
        return UUID(int=0), slack.channel  # a dry run: it would have been made by now
    return document.id, slack.channel


def _slack(settings: Settings) -> Slack | None:
    if settings.slack_token is None or settings.slack_channel is None:
        return None
    return Slack(channel=settings.slack_channel, token=settings.slack_token)


def _webhook(slack: Slack) -> Webhook:
    headers: Any = {
        "Authorization": f"Bearer {slack.token.get_secret_value()}",
        "Content-Type": "application/json; charset=utf-8",
    }
    return Webhook(method="POST", url=SecretStr(f"{slack.api}/chat.postMessage"), headers=headers)


async def _type(client: PrefectClient, kind: type[Block], dry_run: bool) -> Step:
    name = str(kind.get_block_type_name())
    try:
        known = await client.read_block_type_by_slug(str(kind._block_type_slug))
        schema = await client.get_most_recent_block_schema_for_block_type(known.id)
    except ObjectNotFound:
        known = schema = None
    differs: tuple[str, ...] = ()
    if known is not None:
        if known.description != kind.get_description():
            differs += ("description",)
        if schema is None or schema.fields.get("properties") != kind.model_json_schema()["properties"]:
            differs += ("fields",)
    if (known is None or differs) and not dry_run:
        await kind.aregister_type_and_schema(client=client)
    action = "create" if known is None else "update" if differs else "unchanged"
    return Step("block type", name, action, differs)


async def _document(client: PrefectClient, block: Block, name: str, dry_run: bool) -> Step:
    known = await _load(client, type(block), name)
    differs: tuple[str, ...] = ()
    if known is not None:
        ours, theirs = _revealed(block), _revealed(known)
        differs = tuple(field for field in ours if ours[field] != theirs.get(field))
    if (known is None or differs) and not dry_run:
        await block.asave(name, overwrite=True, client=client)
    action = "create" if known is None else "update" if differs else "unchanged"
    return Step("block", f"{block.get_block_type_slug()}/{name}", action, differs)


def _revealed(block: Block) -> dict[str, Any]:
    """Its fields with secrets laid open, to be compared only."""
    plain: dict[str, Any] = to_jsonable_python(
        {field: getattr(block, field) for field in type(block).model_fields},
        fallback=lambda value: value.get_secret_value(),
    )
    return plain


async def _load(client: PrefectClient, kind: type[Any], name: str) -> Any:
    try:
        return await kind.aload(name, client=client)
    except ValueError as error:  # what Prefect raises for a document, or a type, that is not there
        if isinstance(error.__cause__, ObjectNotFound):
            return None
        raise
