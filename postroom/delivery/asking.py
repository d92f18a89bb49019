"""Questions to customers' accounts, in threads of their own: an account that does not answer holds up no heartbeat."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

AT_ONCE = 32
P = ParamSpec("P")
T = TypeVar("T")
_threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="asking")


async def asked(call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What the call gives, as `asyncio.to_thread` would have it."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_threads, lambda: context.run(call, *given, **named))
