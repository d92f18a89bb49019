"""Measures every benchmark, or those named, and writes docs/benchmarks.md.

    python -m benchmarks [NAME…]

A benchmark is a module beside this one with a `TITLE` and a `measure()` that returns Markdown. One that fails
costs the others nothing: its last table stays, and a line says that it is old.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import benchmarks
from benchmarks.machine import busy, described
from postroom.errors import sanitise

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `make bench`. Peers are measured in the same run, in turns, on the same machine: read the ratios, not
the absolute numbers.
"""


def known() -> dict[str, ModuleType]:
    """Every benchmark by its name."""
    names = sorted(each.name for each in pkgutil.iter_modules(benchmarks.__path__) if not each.name.startswith("_"))
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "TITLE") and hasattr(module, "measure")}


def sections(page: str) -> dict[str, str]:
    """The text of each section of the page, by its title."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
    return {title.strip(): text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def written(before: str, modules: dict[str, ModuleType], wanted: Sequence[str]) -> tuple[str, list[str]]:
    """The new page, and the names of benchmarks that failed."""
    old, failed, page = sections(before), [], HEAD
    for name, module in modules.items():
        text = old.get(module.TITLE, "")
        if name in wanted:
            print(f"measuring: {module.TITLE} …", file=sys.stderr, flush=True)
            try:
                before_it = "\n\n".join(filter(None, [described(), busy()]))
                text = f"{before_it}\n\n{module.measure().strip()}"
            except Exception as error:
                traceback.print_exc()
                failed.append(name)
                said = sanitise(f"{type(error).__name__}: {error}").splitlines()[0]
                kept = re.sub(r"^\*Not measured.*\*\n*", "", text, flags=re.MULTILINE)
                text = f"*Not measured this time ({said}).*\n\n{kept}".strip()
        if text:
            page += f"\n## {module.TITLE}\n\n{text}\n"
    return page, failed


def main(wanted: Sequence[str]) -> int:
    modules = known()
    if unknown := [name for name in wanted if name not in modules]:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(modules)}", file=sys.stderr)
        return 2
    page, failed = written(PAGE.read_text() if PAGE.exists() else "", modules, wanted or list(modules))
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page)
    print(page)
    return 70 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
