"""Customers that do not answer cost threads of their own."""

import asyncio
import threading

from postroom.delivery.asking import AT_ONCE, asked


async def test_customers_that_hang_leave_the_threads_of_heartbeats_alone() -> None:
    answer = threading.Event()
    hanging = [asyncio.ensure_future(asked(answer.wait, 30)) for _ in range(2 * AT_ONCE)]
    try:
        await asyncio.sleep(0)  # all of them are asked
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "alive"), 5) == "alive"
    finally:
        answer.set()
        await asyncio.gather(*hanging)
