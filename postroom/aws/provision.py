"""Makes AWS look as layout.py says: plan shows the differences, apply removes them.

Safe to run twice and by several at once: every step first asks what is there, and takes
"someone was quicker" for an answer. Nothing is ever deleted here but a removed customer's queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from postroom.aws import layout
from postroom.aws.names import Names
from postroom.aws.notifications import Notification, remove_notification
from postroom.aws.queues import account, find_queue, remove_queue
from postroom.aws.resource import Resource, Step
from postroom.errors import BadInput
from postroom.settings import Settings
from postroom.settings import settings as current

_CODE = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_DOMAIN = re.compile(r"(?=.{1,100}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")


def plan(settings: Settings | None = None) -> list[Step]:
    """What apply would do to this post room's resources."""
    return planned(_house(settings))


def apply(settings: Settings | None = None) -> list[Step]:
    """Creates and mends this post room's resources; the steps taken."""
    return applied(_house(settings))


def provision_site(project: str, domain: str, *, dry_run: bool = False) -> list[Step]:
    """The three buckets of a site, created and mended."""
    if not _PROJECT.fullmatch(project):
        raise BadInput(f"project {project!r} must be 1-63 characters of a-z, 0-9 and '-', not beginning with '-'")
    if not _DOMAIN.fullmatch(domain):
        raise BadInput(f"domain {domain!r} is not a lower case domain name")
    if len(longest := Names.media_bucket(project, domain)) > 63:
        raise BadInput(f"bucket name {longest!r} is longer than the 63 characters S3 allows")
    resources = layout.site(project, domain)
    return planned(resources) if dry_run else applied(resources)


def provision_customer(code: str, settings: Settings | None = None, *, dry_run: bool = False) -> list[Step]:
    """A customer's queue, dead letters and notification, created and mended."""
    resources = _customer(code, settings or current())
    return planned(resources) if dry_run else applied(resources)


def remove_customer(code: str, settings: Settings | None = None, *, dry_run: bool = False) -> list[Step]:
    """Takes the notification away first, then both queues with what they hold; the steps taken."""
    settings = settings or current()
    steps: list[Step] = []
    for resource in reversed(_customer(code, settings)):
        if isinstance(resource, Notification):
            there = resource.differences() is not None
            if there and not dry_run:
                remove_notification(resource.bucket, resource.id)
        else:
            there = find_queue(resource.name) is not None
            if there and not dry_run:
                remove_queue(resource.name)
        steps.append(Step(resource.kind, resource.name, "remove" if there else "unchanged"))
    return steps


def planned(resources: Iterable[Resource]) -> list[Step]:
    """The differences between what is and what should be."""
    return [_step(resource, resource.differences()) for resource in resources]


def applied(resources: Iterable[Resource]) -> list[Step]:
    """The same, with the differences removed."""
    steps = []
    for resource in resources:
        differences = resource.differences()
        if differences is None:
            resource.create()
        elif differences:
            resource.mend(differences)
        steps.append(_step(resource, differences))
    return steps


def _step(resource: Resource, differences: list[str] | None) -> Step:
    if differences is None:
        return Step(resource.kind, resource.name, "create")
    return Step(resource.kind, resource.name, "update" if differences else "unchanged", tuple(differences))


def _house(settings: Settings | None) -> list[Resource]:
    settings = settings or current()
    return layout.house(Names(settings.prefix), settings, account())


def _customer(code: str, settings: Settings) -> list[Resource]:
    if not _CODE.fullmatch(code):
        raise BadInput(f"customer code {code!r} must be 1-31 characters of a-z, 0-9 and '-', not beginning with '-'")
    return layout.customer(code, Names(settings.prefix), settings, account())
