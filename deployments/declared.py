"""Deployments as prefect.yaml declares them, written into Prefect.

The file is Prefect's own format (`prefect deploy --all` understands it too). Reading it here makes a
deploy a matter of a second, lets it be repeated without a trace, and lets `--dry-run` name differences.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from prefect import Flow
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyOptions
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import ObjectNotFound
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema

from postroom.aws.resource import Step
from postroom.errors import Misconfigured
from postroom.settings import Settings

FILE = Path(__file__).parent.parent / "prefect.yaml"
KNOWN = {
    *("name", "description", "entrypoint", "work_pool", "tags", "schedules"),
    *("parameters", "concurrency_limit", "enforce_parameter_schema"),
}


def declared(file: Path = FILE) -> list[dict[str, Any]]:
    """The entries of the file; raises for one that this code would not carry out to the letter."""
    entries: list[dict[str, Any]] = (yaml.safe_load(file.read_text()) or {}).get("deployments") or []
    for entry in entries:
        name = entry.get("name")
        if not name or not entry.get("entrypoint") or not (entry.get("work_pool") or {}).get("name"):
            raise Misconfigured(f"{file.name}: deployment {name!r} needs a name, an entrypoint and a work_pool name")
        if unknown := set(entry) - KNOWN:
            raise Misconfigured(f"{file.name}: {name} says {', '.join(sorted(unknown))}, which is not understood here")
    return entries


async def deploy(client: PrefectClient, settings: Settings, *, dry_run: bool) -> list[Step]:
    """The deployments, created and mended."""
    return [await _one(client, entry, dry_run) for entry in declared()]


async def _one(client: PrefectClient, entry: dict[str, Any], dry_run: bool) -> Step:
    flow = load_flow_from_entrypoint(entry["entrypoint"], use_placeholder_flow=False)
    wanted = _wanted(entry, flow)
    try:
        known = await client.read_deployment_by_name(f"{flow.name}/{entry['name']}")
    except ObjectNotFound:
        known = None
    differs: tuple[str, ...] = ()
    if known is not None:
        limit = known.global_concurrency_limit.limit if known.global_concurrency_limit else None
        there = {**dict(known), "concurrency_limit": limit}
        differs = tuple(name for name, value in wanted.items() if _plain(value) != _plain(there.get(name)))
    if (known is None or differs) and not dry_run:
        await client.create_deployment(await client.create_flow(flow), **wanted)
    action = "create" if known is None else "update" if differs else "unchanged"
    return Step("deployment", entry["name"], action, differs)


def _wanted(entry: dict[str, Any], flow: Flow[..., Any]) -> dict[str, Any]:
    limit = entry.get("concurrency_limit")
    wanted = {
        "name": entry["name"],
        "version": flow.version,
        "entrypoint": entry["entrypoint"],
        "description": entry.get("description") or flow.description,
        "work_pool_name": entry["work_pool"]["name"],
        "work_queue_name": entry["work_pool"].get("work_queue_name", "default"),
        "job_variables": entry["work_pool"].get("job_variables", {}),
        "tags": entry.get("tags", []),
        "parameters": entry.get("parameters", {}),
        "schedules": [_schedule(entry["name"], each) for each in entry.get("schedules", [])],
        "concurrency_limit": limit.get("limit") if isinstance(limit, dict) else limit,
        "parameter_openapi_schema": parameter_schema(flow).model_dump_for_openapi(),
        "enforce_parameter_schema": entry.get("enforce_parameter_schema", True),
    }
    if isinstance(limit, dict) and "collision_strategy" in limit:
        wanted["concurrency_options"] = ConcurrencyOptions(collision_strategy=limit["collision_strategy"])
    return wanted


def _schedule(name: str, said: dict[str, Any]) -> DeploymentScheduleCreate:
    active = said.get("active", True)
    match said:
        case {"cron": cron}:
            when: Any = CronSchedule(cron=cron, timezone=said.get("timezone", "UTC"))
        case {"interval": seconds}:
            when = IntervalSchedule(interval=timedelta(seconds=seconds))
        case _:
            raise Misconfigured(f"prefect.yaml: a schedule of {name} needs `cron` or `interval` (seconds)")
    return DeploymentScheduleCreate(schedule=when, active=active)


def _plain(value: Any) -> Any:
    """The value as it can be compared: schedules by what they say, not by id or anchor; tags in any order."""
    if isinstance(value, list):
        return sorted((_plain(each) for each in value), key=str)
    if hasattr(value, "schedule"):
        said = value.schedule.model_dump(mode="json", exclude={"anchor_date"}, exclude_none=True)
        return {**said, "timezone": said.get("timezone", "UTC")}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, dict):  # a schema's empty lists may be said or left out
        return {key: each for key, each in value.items() if each not in ([], {}, None) or key == "properties"}
    return value
