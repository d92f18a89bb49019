"""What Prefect does by itself: end runs whose process has died, and tell people of failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from deployments import block_documents
from postroom.aws.resource import Step
from postroom.settings import Settings
from workers.beats import HEARTBEAT_SECONDS as HEARTBEAT_SECONDS

SILENCE = timedelta(seconds=3 * HEARTBEAT_SECONDS)
UNWATCHED = timedelta(minutes=15)  # three health checks
ENDINGS = {"Completed", "Failed", "Cancelled", "Crashed"}
OUR_ENDINGS = {"Refused", "Put off", "Needs attention", "Preempted"}  # names that our flows give to states
RESTS = {  # nobody executes the run, and nobody should: it beats again when it is taken up
    *("Scheduled", "AwaitingRetry", "Rescheduled", "AwaitingConcurrencySlot", "Late"),
    *("Paused", "Suspended"),
}


def zombies(silence: timedelta = SILENCE) -> AutomationCore:
    """A run that beat once and then fell silent, without an end or a rest, is Crashed.

    beat ── beat ── (silence for three beats) ──▶ Crashed ──▶ the sweeper sees the lease expire and reschedules
    """
    quiet = sorted(ENDINGS | OUR_ENDINGS | RESTS)
    return AutomationCore(
        name="Silent runs are crashed",
        description="A flow run whose heartbeat stops has lost its process; it is marked Crashed.",
        trigger=EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in quiet)},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=silence,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, message="Its heartbeat has stopped: the process of this run has died."
            )
        ],
    )


def failures(webhook: UUID, channel: str) -> AutomationCore:
    """A run that watches over the house and fails is told to Slack, with a link to it.

    Other runs are not: one that failed may be an attempt that is followed by another, and what has failed for
    good is an incident of the runs that watch, or `given_up`.
    """
    return AutomationCore(
        name="Failures are told to Slack",
        description="A run of health-check or dead-letters that fails is told to the channel of the Slack block.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            match_related={"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.job:house"},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(seconds=0),
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=json.dumps({"channel": channel, "text": TEXT}))],
    )


def given_up(webhook: UUID, channel: str) -> AutomationCore:
    """An edit or a job that has failed for good is told to Slack: no message was held for it, so no letter died."""
    return AutomationCore(
        name="Work that was given up is told to Slack",
        description="An edit or a job that failed for good is told to the channel of the Slack block.",
        trigger=EventTrigger(
            expect={"postroom.edit.failed", "postroom.job.failure-detected"},
            match={"prefect.resource.id": ["postroom.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(seconds=0),
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=json.dumps({"channel": channel, "text": GIVEN_UP}))],
    )


def unwatched(webhook: UUID, channel: str, silence: timedelta = UNWATCHED) -> AutomationCore:
    """That no health-check comes to its end is told to Slack: it runs on the light pool, and can't report its death.

    check ── check ── (15 minutes without one) ──▶ told once, until a check ends again
    """
    ended = {"prefect.flow-run.Completed", "prefect.flow-run.Needs attention"}
    return AutomationCore(
        name="Missing health checks are told to Slack",
        description="When no run of health-check has completed for 15 minutes, the channel of the Slack block is told.",
        trigger=EventTrigger(
            after=ended,
            expect=ended,
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": "health-check"},
            posture=Posture.Proactive,
            threshold=1,
            within=silence,
        ),
        actions=[CallWebhook(block_document_id=webhook, payload=json.dumps({"channel": channel, "text": NOT_WATCHED}))],
    )


# Only what we name ourselves: a state's message, and a run's name, may quote a stranger's mail.
TEXT = "A run of {{ flow.name }} is {{ flow_run.state.name }}: {{ flow_run|ui_url }}"
NOT_WATCHED = "No health check has ended for 15 minutes: is a light worker there? Until then nobody watches."
GIVEN_UP = "{{ event.event }}: {{ event.resource.id }}"


async def deploy(client: PrefectClient, settings: Settings, *, dry_run: bool) -> list[Step]:
    """The automations, created and mended; those for Slack only when there is a Slack block."""
    wanted = [zombies()]
    if slack := await block_documents.slack_webhook(client, settings):
        wanted += [failures(*slack), given_up(*slack), unwatched(*slack)]
    steps = []
    for automation in wanted:
        known = await client.read_automations_by_name(automation.name)
        if not known:
            if not dry_run:
                await client.create_automation(automation)
            steps.append(Step("automation", automation.name, "create"))
            continue
        differs = tuple(field for field in COMPARED if _plain(automation, field) != _plain(known[0], field))
        if differs and not dry_run:
            await client.update_automation(known[0].id, automation)
        steps.append(Step("automation", automation.name, "update" if differs else "unchanged", differs))
    return steps


COMPARED = ("description", "trigger", "actions")  # not `enabled`: whoever paused one had a reason


def _plain(automation: AutomationCore, field: str) -> Any:
    return _sorted(automation.model_dump(mode="json", include={field}))


def _sorted(value: Any) -> Any:
    """Sets come back in any order."""
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items() if key != "id"}
    if isinstance(value, list):
        each_as_text: Callable[[Any], str] = lambda each: json.dumps(each, sort_keys=True)  # noqa: E731
        return sorted((_sorted(each) for each in value), key=each_as_text)
    return value
