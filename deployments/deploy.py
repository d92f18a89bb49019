"""Prefect made to look as this checkout says: pools, limits, blocks, automations, deployments.

Each says what it wants and changes only what differs, so it may be run as often as one likes.
`python -m deployments.deploy` is what `postroom up` calls; people call `postroom deploy`.
"""

from __future__ import annotations

import asyncio
import sys

from prefect.client.orchestration import get_client

from deployments import automations, block_documents, declared, limits, work_pools
from postroom.aws.resource import Step
from postroom.errors import PostroomError
from postroom.settings import settings

# In this order: a deployment needs its pool, an automation its block.
PARTS = (work_pools.deploy, limits.deploy, block_documents.deploy, automations.deploy, declared.deploy)


async def deploy(*, dry_run: bool = False) -> list[Step]:
    """Writes what differs into Prefect, unless it is a dry run; the steps."""
    steps: list[Step] = []
    async with get_client() as client:
        for part in PARTS:
            steps += await part(client, settings(), dry_run=dry_run)
    return steps


def main() -> int:
    try:
        for step in asyncio.run(deploy()):
            print(f"{step.action:<10} {step.kind} {step.name} {', '.join(step.differences)}".rstrip())
    except PostroomError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
