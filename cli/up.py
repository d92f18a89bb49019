"""`postroom up`: the whole post room on this machine, in the foreground or behind it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cli import say, whereabouts
from cli.board import Board, links
from postroom.errors import OurFault, TimedOut, Unavailable
from postroom.settings import load
from workers.house import TITLES, House, check_ports, stop_on_signals
from workers.premises import Ports, Premises, addresses, ports_of
from workers.supervisor import Member

app = typer.Typer(add_completion=False)

# The first thing to try, by what this checkout can do: the last verb of the list that is there.
TRIES = {
    "cli.status": "{postroom} status",
    "cli.mail": "{postroom} mail send --from owner@example.com --to garden+owner@example.com \\\n"
    '    --subject "Spring in the garden" --text "The first tulips are out." --wait',
}
LAST_WORD_SECONDS = 30.0  # for the one in the background to say by itself which part did not get ready


@app.command()
def up(
    ctx: typer.Context,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background; return when ready.")] = False,
    ports_from: Annotated[
        int | None, typer.Option("--ports-from", help="First of the ports to use, so that two can run side by side.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be started, and where.")] = False,
) -> None:
    """Run the whole post room on this machine; Ctrl-C stops it."""
    load()  # a wrong setting is named before anything starts
    ports = Ports() if ports_from is None else Ports.starting_at(ports_from)
    premises = Premises(whereabouts.data_directory(ctx.find_root().obj))
    if dry_run:
        say_plan(premises, ports)
        return
    premises.prepare()
    if premises.is_running():
        say.note(f"A post room already runs on {premises.data}.")
        show_links(premises)
        say.note("`postroom status` says more; `postroom down` stops it.")
        return
    check_ports(ports)
    whereabouts.remember(premises.data)
    if detach:
        in_background(premises, ports)
    else:
        asyncio.run(in_foreground(premises, ports))


async def in_foreground(premises: Premises, ports: Ports) -> None:
    """Starts everything, stays until told to stop, stops everything."""
    board = Board(TITLES, say.err)
    to_stop = asyncio.Event()
    stop_on_signals(to_stop)
    begun = time.monotonic()

    def tell(member: Member, remark: str) -> None:
        board.show(member.name, member.state, remark)

    def ready() -> None:
        board.close()
        say.note(f"\nThe post room is open, after {time.monotonic() - begun:.1f} s.")
        show_links(premises)
        say.note("Ctrl-C stops it.")

    board.open()
    try:
        await House(premises.data, ports, tell=tell).run(to_stop, when_ready=ready)
    finally:
        board.close()
    say.note("The post room is closed.")


def in_background(premises: Premises, ports: Ports) -> None:
    """Starts a supervisor of its own session and waits until it says that all is ready."""
    log = premises.log("house")
    begun_at = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "cli.up", str(premises.data), str(ports.prefect), *map(str, _others(ports))],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=Path(__file__).parent.parent,
        )
    board = Board(TITLES, say.err)
    board.open()
    try:
        longest = House(premises.data, ports).supervisor.longest_start() + LAST_WORD_SECONDS
        _follow(premises, supervisor, board, log, begun_at, longest)
    except KeyboardInterrupt:
        supervisor.terminate()
        supervisor.wait(60)
        raise
    finally:
        board.close()
    show_links(premises)
    say.note("`postroom down` stops it.")


def _follow(
    premises: Premises, supervisor: subprocess.Popen[bytes], board: Board, log: Path, begun_at: int, longest: float
) -> None:
    deadline = time.monotonic() + longest
    shown: dict[str, str] = {}
    while True:
        code, state = supervisor.poll(), premises.state()
        if state.get("pid") == supervisor.pid:
            for name, now in state["steps"].items():
                if shown.get(name) != now:
                    shown[name] = now
                    board.show(name, now)
            if state["ready"]:
                return
        if code is not None:
            with log.open("rb") as written:
                written.seek(begun_at)
                words = written.read().decode(errors="replace").strip()[-4000:]
            words = words.rpartition("postroom: ")[2]
            raise (Unavailable if code == 69 else OurFault)(words or f"it ended with {code}; its log: {log}")
        if time.monotonic() > deadline:
            supervisor.terminate()
            supervisor.wait(60)
            raise TimedOut(f"it was not ready after {longest:.0f} s; its log: {log}")
        time.sleep(0.2)


def show_links(premises: Premises) -> None:
    links(say.err, addresses(ports_of(premises.state())), premises.data, premises.logs, first=first_try())


def say_plan(premises: Premises, ports: Ports) -> None:
    """What `up` would do; raises when it could not."""
    if premises.is_running():
        say.note(f"A post room already runs on {premises.data}; nothing would be started.")
        return
    check_ports(ports)
    say.note(f"Would start a post room on {premises.data}:")
    for name, title in TITLES.items():
        port = asdict(ports).get(name)
        say.note(f"  {title}" + (f" on 127.0.0.1:{port}" if port else ""))


def first_try() -> str:
    """The first command to try."""
    said = next(said for module, said in reversed(TRIES.items()) if importlib.util.find_spec(module))
    return said.format(postroom=_this_command())


def _this_command() -> str:
    """How to call this command from the directory it was called from."""
    command = Path(sys.executable).parent / "postroom"
    return os.path.relpath(command) if command.is_relative_to(Path.cwd()) else str(command)


def _others(ports: Ports) -> list[int]:
    return [ports.aws, ports.postgres, ports.sensor]


def main() -> None:
    """The supervisor in the background: the same as in the foreground, with lines instead of a board."""
    data, *ports = sys.argv[1:]
    os.environ.setdefault("NO_COLOR", "1")
    asyncio.run(in_foreground(Premises(Path(data)), Ports(*map(int, ports))))


if __name__ == "__main__":
    from cli.main import guarded

    guarded(main)
