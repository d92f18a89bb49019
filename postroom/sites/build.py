"""A site's pages from its files: `astro build` in the sandbox; only dist/ comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import BadInput, BuildFailed, TimedOut, Unavailable
from postroom.settings import settings
from postroom.sites.node import CACHES, find_node
from postroom.sites.sandbox import Cell, Limits, prepare, run_in
from postroom.sites.tree import read_files

WITNESS = Path(__file__).with_name("witness.cjs")
_SAYS = "postroom-witness: "
_MOUNT, _WITNESS_INSIDE, _NODE_INSIDE = "/site", "/run/cell/witness.cjs", "/run/cell/node"
LEAST_FREE = 8 << 20  # bytes


@dataclass(frozen=True)
class Built:
    """A build that came through: where its pages are, how long it took, and what it tried that it should not have."""

    dist: Path
    seconds: float
    peak_memory: int
    tried: tuple[str, ...]
    odd: tuple[str, ...]  # links and other things in dist/ that are no files, left behind


def _astro(node_modules: Path) -> str:
    try:
        told = json.loads((node_modules / "astro/package.json").read_text())["bin"]
    except (OSError, ValueError, KeyError):
        raise BadInput("the site's package-lock.json does not contain astro") from None
    script = told["astro"] if isinstance(told, dict) else told
    return f"node_modules/astro/{script.removeprefix('./')}"


async def build(source: Path, node_modules: Path, dist: Path, *, on_line: Callable[[str], None] | None = None) -> Built:
    """Build the export in `source` and copy its pages to `dist`; raises BuildFailed, or TimedOut, with the last lines.

    `source` is used up: the build's user owns it afterwards.
    """
    node, limits = find_node(), settings()
    shutil.rmtree(source / "dist", ignore_errors=True)
    cell = Cell(
        source,
        mount=_MOUNT,
        shown={f"{_MOUNT}/node_modules": node_modules, _WITNESS_INSIDE: WITNESS, _NODE_INSIDE: node.home},
        scratch=[f"{_MOUNT}/node_modules/{name}" for name in CACHES],
        environment={"ASTRO_TELEMETRY_DISABLED": "1", "NODE_ENV": "production", "NO_COLOR": "1", "CI": "true"},
        limits=Limits(
            seconds=limits.build_seconds,
            memory_mb=limits.build_memory_mb,
            disk_mb=limits.site_total_mb * 3,
            file_mb=limits.site_file_mb * 4,
        ),
    )
    tried: list[str] = []

    def hear(line: str) -> None:
        _, witness, told = line.partition(_SAYS)
        if witness:
            tried.append(told)
        if on_line is not None:
            on_line(line)

    async with prepare(cell) as ready:
        heap = f"--max-old-space-size={limits.build_memory_mb * 3 // 4}"
        script = f"{ready.at}/{_astro(node_modules)}"
        program = f"{ready.seen(_NODE_INSIDE)}/{node.program.relative_to(node.home)}"
        line = [program, heap, "--require", ready.seen(_WITNESS_INSIDE), script, "build"]
        outcome = await run_in(ready, line, cell, on_line=hear)
    if not outcome.ok:
        why = f"stopped at the {outcome.stopped_by}" if outcome.stopped_by else f"exit code {outcome.code}"
        told = f"the site did not build ({why})\n" + "\n".join(outcome.lines[-40:])
        if shutil.disk_usage(source.parent).free < LEAST_FREE:  # not the site's fault, and it passes
            raise Unavailable(
                f"no room is left on the disk: {told}", safe="This machine had no room left for the work."
            )
        if outcome.stopped_by and outcome.stopped_by.startswith("time"):
            raise TimedOut(told, lines=list(outcome.lines[-40:]), tried=tried)
        raise BuildFailed(told, lines=list(outcome.lines[-40:]), tried=tried)
    odd: list[str] = []
    made = source / "dist"
    if made.is_symlink() or not made.is_dir():
        raise BuildFailed("the build ended well but left no dist/", tried=tried)
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    for found in read_files(made, lambda path: False, odd):
        if found.mode == "120000":
            odd.append(found.path)
            continue
        target = dist / found.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(found.content)
    return Built(dist, outcome.seconds, outcome.peak_memory, tuple(tried), tuple(sorted(odd)))
