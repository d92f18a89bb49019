"""The process in which a claude agent works, inside its sandbox.

Standard input: the job as one line of JSON, then control lines; its end means that the parent is gone.
Standard output: one JSON event a line. Standard error: whatever the CLI says.
Killing any process of parent → this → CLI ends those below it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postroom.agent.confine import RESULT_TOOL, TODO_TOOLS, Bounds, Denied

_PR_SET_PDEATHSIG = 1
_BUFFER = 32 * 1024 * 1024  # 1 MiB, the SDK's own, ends runs that read a large file
_LONG_WAIT = 20.0  # seconds; a rate limit that asks for more is the caller's to wait for


class Events:
    """The line to the parent."""

    def __init__(self, fd: int) -> None:
        self._file = os.fdopen(fd, "w", encoding="utf-8")
        self._alive = 0.0
        self._message: str | None = None
        self._refused: set[str] = set()

    def send(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"event": event, **fields}, ensure_ascii=True, default=str) + "\n")
        self._file.flush()

    def alive(self) -> None:
        """A token came; said at most four times a second."""
        if time.monotonic() - self._alive > 0.25:
            self._alive = time.monotonic()
            self.send("alive")

    def turn(self, message: str | None, usage: Any) -> None:
        """The model answered; each block of one answer comes by itself, so they are told apart by its id."""
        if message is None or message != self._message:
            self._message = message
            self.send("turn", usage=usage)

    def refused(self, id: str | None, name: str, given: Any, why: str) -> None:
        """A call that may not run; the hook and the message both tell of it, in either order."""
        if id is None or id not in self._refused:
            self._refused.add(str(id))
            self.send("refused", id=id, name=name, input=given, why=why)


class GiveUp(Exception):
    """The endpoint said something that no further try inside the CLI can mend."""


def main() -> int:
    events = Events(os.dup(1))
    os.dup2(2, 1)  # nothing but events may reach the parent's parser
    if os.getpgrp() != os.getpid():
        with contextlib.suppress(OSError):
            os.setsid()
    _die_with_parent()
    line = sys.stdin.buffer.readline()
    if not line:
        return 70
    asyncio.run(_serve(json.loads(line), events))
    return 0


def _die_with_parent() -> None:
    """Parent gone → the whole group goes, at once: by signal here, by end of input in `_watch`."""
    signal.signal(signal.SIGHUP, lambda *_: _end_group())
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)


def _end_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(70)


def _watch(loop: asyncio.AbstractEventLoop, interrupted: asyncio.Event) -> None:
    for line in sys.stdin.buffer:
        if line.strip() == b"interrupt":
            loop.call_soon_threadsafe(interrupted.set)
    _end_group()


async def _serve(job: Mapping[str, Any], events: Events) -> None:
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, interrupted.set)
    threading.Thread(target=_watch, args=(loop, interrupted), daemon=True).start()
    code = 0
    try:
        await _work(job, events, interrupted)
    except GiveUp:
        pass  # the events have said why
    except Exception as error:
        events.send("error", kind=type(error).__name__, message=str(error)[:4000])
        code = 1
    sys.stderr.flush()
    os._exit(code)  # at once: the SDK would wait for the CLI, the interpreter for the thread that reads our input


async def _work(job: Mapping[str, Any], events: Events, interrupted: asyncio.Event) -> None:
    from claude_agent_sdk import ClaudeSDKClient

    bounds = Bounds(Path(job["workspace"]), frozenset(job["tools"]), tuple(job["protected"]))
    client = ClaudeSDKClient(_options(job, bounds, events))
    await client.connect()
    await client.query(str(job["prompt"]))
    asked = asyncio.create_task(_interrupt_when(client, interrupted))
    async for message in client.receive_response():
        _tell(message, bounds, events)
    asked.cancel()
    # No goodbye to the CLI: it would go on calling the model meanwhile, and it ends with us.


async def _interrupt_when(client: Any, interrupted: asyncio.Event) -> None:
    await interrupted.wait()
    with contextlib.suppress(Exception):
        await client.interrupt()


def _options(job: Mapping[str, Any], bounds: Bounds, events: Events) -> Any:
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

    home = Path(job["home"])
    for name in ("home", "config", "tmp", "bin"):
        (home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    prompt = home / "system.txt"  # by file: arguments are visible to every process of the machine
    prompt.write_text(f"{job['system']}\n\nYour workspace is {job['workspace']}.\n".lstrip(), encoding="utf-8")
    schema = job["schema"]
    return ClaudeAgentOptions(
        system_prompt={"type": "file", "path": str(prompt)},
        tools=[*job["tools"], *TODO_TOOLS],
        cwd=job["workspace"],
        cli_path=_leashed(home),
        model=job["model"],
        max_turns=job["max_turns"],
        max_budget_usd=job["max_usd"],
        permission_mode="dontAsk",  # what the hook does not allow is denied, nobody is asked
        hooks={"PreToolUse": [HookMatcher(hooks=[_guard(bounds, events)], on_failure="block")]},
        setting_sources=[],  # else hooks in the workspace's .claude run
        strict_mcp_config=True,
        skills=[],
        verbatim_prompts=True,  # else `@/etc/passwd` in a mail is read and `/commands` run
        include_partial_messages=True,  # tokens are signs of life
        max_buffer_size=_BUFFER,
        output_format={"type": "json_schema", "schema": schema} if schema else None,
        stderr=lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
    )


def _leashed(home: Path) -> str | None:
    """The bundled CLI behind a script that ties its life to ours."""
    import claude_agent_sdk

    cli = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin")
    if sys.platform != "linux" or setpriv is None or not cli.exists():
        return None  # the SDK's own choice; end of input and the parent's kill remain
    script = home / "cli"
    script.write_text(f'#!/bin/sh\nexec "{setpriv}" --pdeathsig KILL -- "{cli}" "$@"\n')
    script.chmod(0o700)
    return str(script)


def _guard(bounds: Bounds, events: Events) -> Any:
    async def guard(call: Any, id: str | None, _context: Any) -> dict[str, Any]:
        name, given = str(call.get("tool_name")), call.get("tool_input") or {}
        allowed, why = _checked(bounds, name, given)
        if allowed is not None:
            return _decision("allow", "inside the workspace", updatedInput=allowed)
        events.refused(id, name, given, why)
        return _decision("deny", why)

    return guard


def _checked(bounds: Bounds, name: str, given: Any) -> tuple[dict[str, Any] | None, str]:
    """The arguments to run a call with, or None and why not."""
    try:
        return bounds.allow(name, given), ""
    except Denied as refusal:
        return None, str(refusal)
    except Exception as error:  # a guard that fails must not let anything through
        return None, f"it could not be checked ({type(error).__name__})"


def _decision(what: str, why: str, **more: Any) -> dict[str, Any]:
    said = {"permissionDecision": what, "permissionDecisionReason": why}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said, **more}}


def _tell(message: Any, bounds: Bounds, events: Events) -> None:
    """Each message of the SDK as the parent's events; raises GiveUp on what no retry can mend."""
    from claude_agent_sdk import AssistantMessage, ResultMessage, SystemMessage, UserMessage
    from claude_agent_sdk.types import (
        RateLimitEvent,
        StreamEvent,
        TextBlock,
        ToolResultBlock,
        ToolUseBlock,
    )

    match message:
        case StreamEvent():
            if message.event.get("type") == "content_block_delta":  # a ping is no sign of life
                events.alive()
        case AssistantMessage():
            if message.error:
                events.send("api-error", kind=message.error, text=_text(message.content))
                return
            for block in message.content:
                if isinstance(block, TextBlock):
                    events.send("said", text=block.text)
                elif isinstance(block, ToolUseBlock) and block.name != RESULT_TOOL:
                    events.send("tool", id=block.id, name=block.name, input=block.input)
                    allowed, why = _checked(bounds, block.name, block.input)
                    if allowed is None:  # the CLI turns some away before it asks the hook
                        events.refused(block.id, block.name, block.input, why)
            events.turn(message.message_id, message.usage)
        case UserMessage() if isinstance(message.content, list):
            for part in message.content:
                if isinstance(part, ToolResultBlock):
                    note = str(part.content)[:500] if part.is_error else ""
                    events.send("tool-end", id=part.tool_use_id, ok=not part.is_error, note=note)
        case RateLimitEvent():
            info = message.rate_limit_info
            events.send("limit", status=info.status, resets_at=info.resets_at)
        case SystemMessage() if message.subtype == "init":
            data = message.data
            events.send("begun", session=data.get("session_id"), model=data.get("model"), tools=data.get("tools"))
        case SystemMessage() if message.subtype == "api_retry":
            _retry(message.data, events)
        case ResultMessage():
            events.send(
                "result",
                subtype=message.subtype,
                is_error=message.is_error,
                terminal_reason=message.terminal_reason,
                status=message.api_error_status,
                turns=message.num_turns,
                cost=message.total_cost_usd,
                usage=message.usage,
                text=message.result,
                output=message.structured_output,
                errors=message.errors,
            )


def _retry(data: Mapping[str, Any], events: Events) -> None:
    status, delay = data.get("error_status"), float(data.get("retry_delay_ms") or 0) / 1000
    events.send("retry", status=status, delay=delay, kind=data.get("error"))
    if status in (401, 403) or (status == 429 and delay > _LONG_WAIT):
        raise GiveUp


def _text(content: Any) -> str:
    return " ".join(str(getattr(block, "text", "")) for block in content)


if __name__ == "__main__":
    sys.exit(main())
