"""The sample site `garden`, for a post room that has no site yet: `python -m deployments.sample_site`."""

from __future__ import annotations

import asyncio
import sys

from blocks.site import Site
from blocks.sites import all_sites
from postroom.errors import classify
from postroom.settings import settings
from postroom.sites.onboarding import add_site
from postroom.sites.rebuild import packages
from postroom.sites.repository import Repository

PROJECT, USER = "garden", "owner"


def sender() -> str:
    """Who may change the sample site."""
    return f"{USER}@{settings().domain}"


async def add() -> str:
    """What was done, in a word or two."""
    if any(site.project != PROJECT for site in await all_sites()):
        return "there are sites already"
    done = await asyncio.to_thread(add_site, PROJECT, USER, settings().domain, [sender()])
    site = Site(project=PROJECT, users=[USER], domain=settings().domain, senders=[sender()])
    if not await all_sites():
        await site.asave(PROJECT, overwrite=True)
    try:  # so that the first mail need not wait for npm
        await asyncio.to_thread(packages, Repository(done.places.repository), done.places)
    except Exception as error:
        return f"added; its packages could not be fetched yet ({classify(error)})"
    return "ready"


def main() -> int:
    try:
        print(asyncio.run(add()))
    except Exception as error:
        known = classify(error)
        print(known, file=sys.stderr)
        return known.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
