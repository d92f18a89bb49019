"""A proxy before SES that does to SendEmail what networks do: drops, delays, 500s after acceptance, throttles."""

import asyncio
import json
import random
import threading
from collections import Counter
from types import TracebackType

SEND = b"POST /v2/email/outbound-emails "
REFUSALS = {
    "throttle": (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    "conflict": (409, "ConflictException", "The list is being altered."),  # says nothing of the address
    "away": (503, "ServiceUnavailable", "Service unavailable."),
    "bad request": (400, "BadRequestException", "The value of a tag is too long."),  # nor does this, with its code
}
FAULTS = ("drop before", "drop after", "late", "500 after", "throttle")


class Faulty:
    """Runs in a thread of its own; `url` leads through it to the local AWS."""

    def __init__(
        self,
        upstream: str,
        share: float,
        *,
        late_seconds: float = 2.0,
        seed: int | None = None,
        faults: tuple[str, ...] = FAULTS,
    ) -> None:
        self._host, self._port = upstream.removeprefix("http://").split(":")
        self.share, self._late, self._faults = share, late_seconds, faults
        self._dice = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""

    def __enter__(self) -> "Faulty":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        open_ones: set[asyncio.Task[None]] = set()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            open_ones.add(task)
            try:
                await self._connection(reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                open_ones.discard(task)
                writer.close()

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await _message(reader)
            fault = None
            if request.startswith(SEND) and self._dice.random() < self.share:
                fault = self._dice.choice(self._faults)
                self.done[fault] += 1
            if fault == "drop before":
                return
            if fault in REFUSALS:
                writer.write(_refusal(*REFUSALS[fault]))
                await writer.drain()
                continue
            answer = await self._forward(request)
            if fault == "drop after":
                return
            if fault == "late":
                await asyncio.sleep(self._late)
            if fault == "500 after":
                answer = _refusal(500, "InternalServiceErrorException", "Try again.")
            writer.write(answer)
            await writer.drain()

    async def _forward(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            writer.write(request)
            return await _message(reader)
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One HTTP message with a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    return head + (await reader.readexactly(length) if length else b"")


def _refusal(status: int, code: str, message: str) -> bytes:
    body = json.dumps({"message": message}).encode()
    head = f"HTTP/1.1 {status} X\r\nx-amzn-errortype: {code}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
