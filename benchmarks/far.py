"""`python -m benchmarks.far UPSTREAM MILLISECONDS`: the same service, farther away. Prints its own URL."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def far(upstream: str, milliseconds: float) -> Iterator[str]:
    """A URL that leads to `upstream` and answers so many milliseconds later."""
    command = [sys.executable, "-m", "benchmarks.far", upstream, str(milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def serve(upstream: str, seconds: float) -> None:
    host, port = upstream.removeprefix("http://").split(":")

    async def pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter, wait: float) -> None:
        try:
            while data := await source.read(65536):
                await asyncio.sleep(wait)
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pipe(reader, back, 0), pipe(there, writer, seconds))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]) / 1000))
