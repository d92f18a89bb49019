"""Work pools and their job templates. `python -m deployments.work_pools` writes deployments/pools/*.json.

The templates are Prefect's own with few changes, so an upgrade of Prefect shows as a difference here.
"""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectNotFound

from deployments.automations import HEARTBEAT_SECONDS
from postroom.aws.resource import Step
from postroom.errors import Misconfigured
from postroom.settings import Settings

FOLDER = Path(__file__).parent / "pools"
HEAVY = {"process": "heavy-process", "ecs": "heavy-ecs", "ecs:push": "heavy-ecs-push"}
DESCRIPTIONS = {
    "light": "Short work, carried out inside the light worker's own process.",
    "heavy": "Long work, one process or container per run.",
}
# A machine that goes away (Fargate Spot, a deployment) gives its run back instead of losing it.
RUN_ENVIRONMENT = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_SECONDS)}
ECS_ENVIRONMENT = {**RUN_ENVIRONMENT, "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "reschedule"}


def pools(settings: Settings) -> dict[str, tuple[str, dict[str, Any]]]:
    """Pool name → (type, job template), as this installation wants them."""
    return {
        "light": ("light", read("light")),
        "heavy": (settings.heavy_pool, read(HEAVY[settings.heavy_pool])),
    }


def read(name: str) -> dict[str, Any]:
    """A job template as it lies in deployments/pools."""
    template: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return template


def derive() -> dict[str, dict[str, Any]]:
    """All job templates, made from those of the installed Prefect."""
    from prefect.workers.process import ProcessWorker
    from prefect_aws.workers.ecs_worker import ECSWorker

    from workers.light import LightWorker

    ecs = _with(ECSWorker, command="prefect flow-run execute", env=ECS_ENVIRONMENT, cpu=1024, memory=4096)
    push = copy.deepcopy(ecs)
    # Prefect Cloud starts the task itself: nobody watches it, and it must know whose account it is.
    push["variables"]["required"] = sorted({*push["variables"].get("required", []), "aws_credentials", "cluster"})
    return {
        "light": _with(LightWorker),
        "heavy-process": _with(ProcessWorker, command="python -m workers.engine", env=RUN_ENVIRONMENT),
        "heavy-ecs": ecs,
        "heavy-ecs-push": push,
    }


def _with(worker: Any, **defaults: Any) -> dict[str, Any]:
    template: dict[str, Any] = copy.deepcopy(worker.get_default_base_job_template())
    for name, value in defaults.items():
        template["variables"]["properties"][name]["default"] = value
    return template


async def deploy(client: PrefectClient, settings: Settings, *, dry_run: bool) -> list[Step]:
    """The pools, created and mended."""
    steps = []
    for name, (kind, template) in pools(settings).items():
        try:
            known = await client.read_work_pool(name)
        except ObjectNotFound:
            if not dry_run:
                fresh = WorkPoolCreate(name=name, type=kind, base_job_template=template, description=DESCRIPTIONS[name])
                fresh.concurrency_limit = at_once(name, kind, settings)
                await client.create_work_pool(fresh)
            steps.append(Step("work pool", name, "create"))
            continue
        if known.type != kind:
            raise Misconfigured(
                f"the work pool {name!r} in Prefect is of type {known.type!r}, but {kind!r} is wanted. A pool can't "
                f"change its type: delete it in the UI first"
                + (", or set POSTROOM_HEAVY_POOL to what it is." if name == "heavy" else ".")
            )
        wanted = keep_defaults(template, known.base_job_template)
        differs = tuple(
            what
            for what, is_so in (
                ("job template", known.base_job_template == wanted),
                ("description", known.description == DESCRIPTIONS[name]),
            )
            if not is_so
        )
        if differs and not dry_run:
            await client.update_work_pool(
                name, WorkPoolUpdate(base_job_template=wanted, description=DESCRIPTIONS[name])
            )
        steps.append(Step("work pool", name, "update" if differs else "unchanged", differs))
    return steps


def at_once(name: str, kind: str, settings: Settings) -> int | None:
    """How many runs a new pool lets go at once; afterwards it is the operator's to say, in the UI.

    Not the worker's own limit: that one takes down a worker which gets a run back whose process only sleeps.
    """
    if name != "heavy" or (kind != "process" and not settings.heavy_limit):
        return None
    return settings.heavy_limit or 2 * (os.cpu_count() or 1)


def keep_defaults(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Our template, with the defaults an operator has set in the UI where ours leaves them open (cluster, image …)."""
    merged = copy.deepcopy(ours)
    known = theirs.get("variables", {}).get("properties", {})
    for name, variable in merged["variables"]["properties"].items():
        if variable.get("default") is None and known.get(name, {}).get("default") is not None:
            variable["default"] = known[name]["default"]
    return merged


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, template in derive().items():
        (FOLDER / f"{name}.json").write_text(json.dumps(template, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
