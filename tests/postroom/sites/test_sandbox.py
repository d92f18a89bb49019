"""The sandbox, with real commands that try to get out of it."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postroom.errors import BadInput, Misconfigured
from postroom.settings import settings
from postroom.sites import sandbox
from postroom.sites.sandbox import Cell, Limits, layers, run
from tests.patience import PATIENCE

PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else str(Path(sys.executable).resolve())


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Where another user may go too: without namespaces the way to the workspace must be open."""
    with tempfile.TemporaryDirectory(prefix="postroom-cell-") as directory:
        Path(directory).chmod(0o755)
        (Path(directory) / "workspace").mkdir()
        yield Path(directory) / "workspace"


@pytest.fixture(params=["full", "weak"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("POSTROOM_SANDBOX", request.param)
    settings.cache_clear()
    sandbox._full.cache_clear()
    yield request.param
    monkeypatch.undo()
    settings.cache_clear()


async def python(code: str, cell: Cell) -> sandbox.Outcome:
    return await run([PYTHON, "-c", code], cell)


def until(condition: Callable[[], bool], what: str, seconds: float = 10) -> None:
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} after {seconds} s"
        time.sleep(0.02)


async def test_the_workspace_is_writable_and_what_is_written_comes_back(workspace, mode):
    outcome = await python("open('made.txt', 'w').write('hello'); print('done')", Cell(workspace))
    assert outcome.ok, outcome
    assert outcome.lines == ("done",)
    assert (workspace / "made.txt").read_text() == "hello"


async def test_nothing_of_our_environment_goes_in(workspace, mode, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("POSTROOM_AGENT_TOKEN", "very-secret")
    code = "import os; print(sorted({*os.environ} - {'LC_CTYPE', 'PWD'})); print(os.environ)"
    outcome = await python(code, Cell(workspace))
    assert "very-secret" not in "\n".join(outcome.lines)
    assert outcome.lines[0] == "['HOME', 'LANG', 'PATH', 'TMPDIR', 'TZ']"


async def test_files_outside_can_not_be_read_or_written(workspace, tmp_path):
    (tmp_path / "secret").write_text("very-secret")
    (tmp_path / "secret").chmod(0o644)
    code = f"""
import os
for path in ({str(tmp_path / "secret")!r}, "/etc/shadow", "/etc/hostname", "/var/log", {str(Path(__file__))!r}):
    try: print("got", os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError as error: print(type(error).__name__)
for path in ("/usr/evil", "/evil", {str(tmp_path / "evil")!r}):
    try: open(path, "w"); print("wrote", path)
    except OSError as error: print(type(error).__name__)
"""
    outcome = await python(code, Cell(workspace))
    assert not any(line.startswith(("got", "wrote")) for line in outcome.lines), outcome.lines
    assert not (tmp_path / "evil").exists()


async def test_our_processes_can_not_be_seen(workspace):
    code = f"""
import os
print("seen", sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[-1] < 20)
for pid in ({os.getpid()}, os.getppid(), 1):
    try: print("got", open(f"/proc/{{pid}}/environ").read())
    except OSError as error: print(type(error).__name__)
try: os.kill({os.getpid()}, 0); print("got a signal through")
except OSError as error: print(type(error).__name__)
"""
    outcome = await python(code, Cell(workspace))
    assert "seen True" in outcome.lines
    mine = Path(f"/proc/{os.getpid()}/environ").read_text().split("\0")[0]
    assert not any(mine in line or line.startswith("got a") for line in outcome.lines), outcome.lines


async def test_there_is_no_network_and_no_capability(workspace):
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    try:
        code = f"""
import socket
for address in (("127.0.0.1", {server.server_address[1]}), ("192.0.2.1", 80), ("169.254.169.254", 80)):
    try: socket.create_connection(address, 2); print("connected", address)
    except OSError as error: print("refused")
print([line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "NoNewPrivs"))])
"""
        outcome = await python(code, Cell(workspace))
    finally:
        server.server_close()
    assert outcome.lines == ("refused", "refused", "refused", "['0000000000000000', '1']")


class _Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


async def test_the_one_address_that_is_allowed_can_be_reached_and_no_other(workspace):
    with serving() as allowed, serving() as other:
        code = f"""
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:{allowed}/", timeout=5).read())
try: urllib.request.urlopen("http://127.0.0.1:{other}/", timeout=2); print("got out")
except OSError: print("refused")
"""
        outcome = await python(code, Cell(workspace, allow_tcp=("127.0.0.1", allowed)))
    assert outcome.lines == ("b'hello'", "refused")


async def test_what_is_shown_can_be_read_and_not_written(workspace, tmp_path):
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "file").write_text("read me")
    code = """
print(open("/shown/file").read())
try: open("/shown/file", "w"); print("wrote")
except OSError as error: print(type(error).__name__)
"""
    outcome = await python(code, Cell(workspace, shown={"/shown": shown}))
    assert outcome.lines == ("read me", "OSError")
    assert (shown / "file").read_text() == "read me"


async def test_a_command_that_hangs_is_ended_in_time_with_everything_it_started(workspace, mode):
    mark = f"31{os.getpid()}{time.monotonic_ns() % 100000}"
    code = f"import subprocess, time; subprocess.Popen(['sleep', '{mark}'], start_new_session=True); time.sleep(600)"
    began = time.monotonic()
    outcome = await python(code, Cell(workspace, limits=Limits(seconds=1.5)))
    assert outcome.stopped_by == "time limit of 1.5 s"
    assert not outcome.ok
    assert time.monotonic() - began < 20
    until(lambda: not running(mark), "a child is still there")


def running(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text().split("\0")
            if words[0].endswith("sleep") and mark in words:  # itself, not what starts it
                found.append(path.parent.name)
    return found


async def test_children_do_not_outlive_a_command_that_ends_well(workspace, mode):
    mark = f"32{os.getpid()}{time.monotonic_ns() % 100000}"
    code = f"import subprocess; subprocess.Popen(['sleep', '{mark}'], start_new_session=True, stdout=-3, stderr=-3)"
    outcome = await python(code, Cell(workspace))
    assert outcome.code == 0
    until(lambda: not running(mark), "a child is still there")


async def test_too_much_memory_ends_the_command(workspace, mode):
    code = "import time; kept = [bytearray(b'x' * 50_000_000) for _ in range(20)]; time.sleep(30)"
    began = time.monotonic()
    outcome = await python(code, Cell(workspace, limits=Limits(memory_mb=200, seconds=60)))
    assert not outcome.ok
    assert outcome.stopped_by == "memory limit of 200 MB" or "MemoryError" in "".join(outcome.lines)
    assert time.monotonic() - began < 20


async def test_memory_spread_over_children_counts_together(workspace):
    code = """
import subprocess, sys, time
hold = "import time; x = bytearray(b'x' * 60_000_000); time.sleep(60)"
for _ in range(6): subprocess.Popen([sys.executable, "-c", hold])
time.sleep(60)
"""
    outcome = await python(code, Cell(workspace, limits=Limits(memory_mb=200, seconds=60)))
    assert outcome.stopped_by == "memory limit of 200 MB"


async def test_too_much_output_ends_the_command(workspace):
    outcome = await python("while True: print('x' * 1000)", Cell(workspace, limits=Limits(output_mb=1, seconds=60)))
    assert outcome.stopped_by is not None
    assert outcome.stopped_by.startswith("output limit")


async def test_a_full_workspace_ends_the_command(workspace):
    code = """
import time
for number in range(60):
    open(f"{number}", "wb").write(b"x" * 1_000_000)
time.sleep(60)
"""
    outcome = await python(code, Cell(workspace, limits=Limits(disk_mb=20, seconds=60)))
    assert outcome.stopped_by == "disk limit of 20 MB"


async def test_a_swarm_of_processes_is_ended(workspace, mode):
    code = """
import subprocess, time
try:
    for _ in range(200): subprocess.Popen(["sleep", "60"])
except OSError as error: print("no more", flush=True)
time.sleep(60)
"""
    outcome = await python(code, Cell(workspace, limits=Limits(processes=40, seconds=3)))
    assert not outcome.ok
    assert "no more" in outcome.lines or outcome.stopped_by == "limit of 40 processes"


async def test_secrets_in_the_output_are_not_passed_on(workspace):
    heard: list[str] = []
    await run(["/bin/echo", "key AKIAABCDEFGHIJKLMNOP"], Cell(workspace), on_line=heard.append)
    assert heard == ["key [aws key]"]


async def test_a_cancelled_command_leaves_nothing_behind(workspace, mode):
    mark = f"33{os.getpid()}{time.monotonic_ns() % 100000}"
    task = asyncio.create_task(run(["/bin/sleep", mark], Cell(workspace)))
    deadline = time.monotonic() + 60
    while not running(mark):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    until(lambda: not running(mark), "the command is still there")


def test_a_killed_parent_leaves_nothing_behind(workspace, mode):
    mark = f"34{os.getpid()}{time.monotonic_ns() % 100000}"
    code = f"""
import asyncio
from pathlib import Path
from postroom.sites.sandbox import Cell, run
asyncio.run(run(["/bin/sleep", "{mark}"], Cell(Path({str(workspace)!r}))))
"""
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "POSTROOM_SANDBOX": mode})
    try:
        until(lambda: bool(running(mark)), "the command has not begun", 20)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
    until(lambda: not running(mark), "the command outlived us")


def test_the_full_sandbox_says_that_every_wall_is_up(monkeypatch):
    monkeypatch.delenv("POSTROOM_SANDBOX", raising=False)
    settings.cache_clear()
    assert {layer.name: layer.on for layer in layers()} == dict.fromkeys(
        ("user", "environment", "limits", "files", "processes", "network"), True
    )


def test_the_weak_mode_must_be_chosen_and_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("POSTROOM_SANDBOX", "weak")
    settings.cache_clear()
    try:
        off = {layer.name: layer.how for layer in layers() if not layer.on}
        assert {"files", "processes", "network"} <= set(off)
        assert off["network"] == "off by POSTROOM_SANDBOX=weak"
    finally:
        monkeypatch.undo()
        settings.cache_clear()


async def test_without_bubblewrap_nothing_runs_and_the_setting_is_named(workspace, monkeypatch):
    monkeypatch.delenv("POSTROOM_SANDBOX", raising=False)
    settings.cache_clear()
    sandbox._full.cache_clear()
    monkeypatch.setattr(sandbox.shutil, "which", lambda *_, **__: None)
    try:
        with pytest.raises(Misconfigured, match="POSTROOM_SANDBOX=weak"):
            await run(["/bin/true"], Cell(workspace))
        with pytest.raises(Misconfigured):
            layers()
    finally:
        sandbox._full.cache_clear()


def test_a_path_inside_must_be_absolute(workspace):
    with pytest.raises(BadInput, match="absolute"):
        Cell(workspace, shown={"/a/../b": workspace})
