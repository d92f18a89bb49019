"""The one way out of a sandbox: a unix socket whose far end is a single TCP address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


@contextlib.asynccontextmanager
async def tunnel(path: Path, host: str, port: int) -> AsyncIterator[None]:
    """While open, every connection to the unix socket at `path` is carried to host:port, and nowhere else."""
    carried: set[asyncio.Task[None]] = set()

    async def carry(near_reader: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            carried.add(task)
            task.add_done_callback(carried.discard)
        try:
            far_reader, far_writer = await asyncio.wait_for(asyncio.open_connection(host, port), 10)
        except (OSError, TimeoutError):
            near_writer.close()
            return
        try:
            await asyncio.gather(_pump(near_reader, far_writer), _pump(far_reader, near_writer))
        except asyncio.CancelledError:
            pass  # the tunnel is closing; asyncio would report it as a fault of this connection
        finally:
            far_writer.close()
            near_writer.close()

    server = await asyncio.start_unix_server(carry, path)
    path.chmod(0o666)  # the sandbox's user is not ours; the directory is what keeps others away
    try:
        yield
    finally:
        server.close()
        for task in list(carried):
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
        path.unlink(missing_ok=True)
