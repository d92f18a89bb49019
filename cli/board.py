"""What `up` shows while parts start and stop: a calm table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

SIGNS = {"ready": ("✓", "green"), "done": ("✓", "green"), "failed": ("✗", "red"), "restarting": ("↻", "yellow")}
QUIET = ("waiting", "starting", "stopping")


class Board:
    """A line per part."""

    def __init__(self, titles: Mapping[str, str], console: Console) -> None:
        self._titles, self._console = titles, console
        self._states = dict.fromkeys(titles, "waiting")
        self._since = dict.fromkeys(titles, time.monotonic())
        self._took: dict[str, float] = {}
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=8, transient=True)

    def open(self) -> None:
        if self._console.is_terminal:
            self._live.start()

    def close(self) -> None:
        self._live.stop()

    def show(self, name: str, state: str, remark: str = "") -> None:
        """Notes that a part has entered a state."""
        was, self._states[name] = self._states[name], state
        if state in ("starting", "stopping"):
            self._since[name] = time.monotonic()
        took = time.monotonic() - self._since[name]
        if state == "restarting" or (state == "ready" and was == "starting" and name in self._took):
            self._say(name, state, remark or "runs again", None)
        elif state in ("ready", "done", "failed"):
            self._took[name] = took
            self._say(name, state, remark, took)

    def _say(self, name: str, state: str, remark: str, took: float | None) -> None:
        sign, style = SIGNS[state]
        line = Text.assemble((f"{sign} ", style), f"{self._titles[name]:<36}")
        if took is not None and not remark:
            line.append(f"{took:5.1f} s", "dim")
        line.append(f"  {remark}" if remark else "", "dim")
        self._console.print(line, soft_wrap=True)

    def _table(self) -> Table:
        shown = Table.grid(padding=(0, 1))
        for name, state in self._states.items():
            if state == "starting":
                seconds = time.monotonic() - self._since[name]
                shown.add_row(self._spinner, Text(self._titles[name]), Text(f"{seconds:4.0f} s", "dim"))
        return shown


def links(console: Console, urls: Mapping[str, str], data: Path, logs: Path, *, first: str) -> None:
    """The small table of links, and the first command to try."""
    shown = Table.grid(padding=(0, 2))
    for title, target in (
        ("Prefect UI", urls["prefect"]),
        ("local AWS", urls["aws"]),
        ("sent mail", urls["outbox"]),
        ("data", str(data)),
        ("logs", str(logs)),
    ):
        shown.add_row(Text(title, "bold"), Text(target))
    console.print()
    console.print(shown)
    console.print()
    console.print("Try it:")
    for line in first.splitlines():
        console.print(Text(f"  {line}", "cyan"), soft_wrap=True)
