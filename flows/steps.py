"""The steps of the mail's two flows, said aloud as they are reached.

A line in the log for whoever watches; and the places where the fault tests end a process, so that a
step added to a flow is a step that is tested. The setting `step_hook` names what they call there.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable

from postroom.settings import settings

log = logging.getLogger("postroom.flows")


def reached(step: str, project: str) -> None:
    """Say that a step of the work on a site is behind us."""
    log.info("%s: %s", project, step)
    if hook := _hook(settings().step_hook):
        hook(step, project)


@functools.lru_cache(maxsize=1)
def _hook(name: str | None) -> Callable[[str, str], None] | None:
    if not name:
        return None
    module, _, function = name.partition(":")
    found: Callable[[str, str], None] = getattr(importlib.import_module(module), function)
    return found
