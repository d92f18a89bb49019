"""`GET /healthz`: what the sensor holds and when it last did what, as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

Report = Callable[[], tuple[bool, dict[str, Any]]]


async def serve(port: int, report: Report, host: str = "127.0.0.1") -> asyncio.Server:
    """A listening server; `report` says whether all is well, and what there is to say."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
                words = head.split(b"\r\n", 1)[0].split(b" ")
                known = len(words) == 3 and words[0] in (b"GET", b"HEAD") and words[1].split(b"?")[0] == b"/healthz"
                well, said = report() if known else (False, {"error": "there is only GET /healthz"})
                status = "404 Not Found" if not known else "200 OK" if well else "503 Service Unavailable"
                body = json.dumps(said).encode()
                lines = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{lines}Connection: close\r\n\r\n".encode() + (b"" if words[0] == b"HEAD" else body))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port, limit=8192)
