"""Data goes to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from postroom.errors import sanitise

err = Console(stderr=True, highlight=False)


def data(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def line(value: Mapping[str, Any]) -> None:
    """One JSON line on stdout."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def text(value: str) -> None:
    print(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout; cells are shown as they are, never as markup."""
    shown = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        shown.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    Console(highlight=False).print(shown)


def note(message: str) -> None:
    err.print(Text(message), soft_wrap=True)


def problem(message: str) -> None:
    err.print(Text("postroom: " + sanitise(message), style="red"), soft_wrap=True)


def trouble(error: BaseException) -> None:
    """An error that is our fault: one line, and the traceback when POSTROOM_DEBUG is set."""
    problem(f"this is a fault in postroom: {type(error).__name__}: {error}")
    if os.environ.get("POSTROOM_DEBUG"):
        sys.stderr.write(sanitise("".join(traceback.format_exception(error)), limit=100_000))
    else:
        note("Set POSTROOM_DEBUG=1 to see where.")
