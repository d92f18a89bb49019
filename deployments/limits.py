"""Global concurrency limits: how much of one thing may happen at once, over all machines."""

from __future__ import annotations

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, GlobalConcurrencyLimitUpdate
from prefect.exceptions import ObjectNotFound

from postroom.aws.resource import Step
from postroom.settings import Settings


def limits(settings: Settings) -> dict[str, int]:
    """Limits by name. A flow that takes one says `strict=True`: a missing limit would silently allow everything."""
    return {"agent-tasks": settings.task_concurrency}


async def deploy(client: PrefectClient, settings: Settings, *, dry_run: bool) -> list[Step]:
    """The limits, created, and switched on. How many places one has is set once: after that it is the operator's."""
    steps = []
    for name, limit in limits(settings).items():
        try:
            known = await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            if not dry_run:
                await client.create_global_concurrency_limit(
                    GlobalConcurrencyLimitCreate(name=name, limit=limit, active=True)
                )
            steps.append(Step("limit", name, "create"))
            continue
        differs = () if known.active else ("active",)
        if differs and not dry_run:
            await client.update_global_concurrency_limit(name, GlobalConcurrencyLimitUpdate(active=True))
        steps.append(Step("limit", name, "update" if differs else "unchanged", differs))
    return steps
