"""Which tool calls an agent may make: file tools, inside the workspace, away from what is not its own.

The answer carries the real path, and the call is rewritten to it: what was checked is what is opened.
"""

from __future__ import annotations

import fnmatch
import re
import stat
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep")
TODO_TOOLS = ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet")  # notes the agent keeps for itself
RESULT_TOOL = "StructuredOutput"
_WRITERS = ("Write", "Edit")
_ARGUMENT = {"Read": "file_path", "Write": "file_path", "Edit": "file_path", "Glob": "path", "Grep": "path"}

# Not the agent's to write: what decides which code our own build and git run.
PROTECTED = (
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bun.lockb",
    "astro.config.*",
    "node_modules",
    ".*",  # .git, .claude, .npmrc, .env, .github, …
)
_NEVER_READ = (".git", ".env", ".env.*", ".npmrc")


class Denied(Exception):
    """This call is refused; the text says why, for the agent and for the trace."""


@dataclass(frozen=True)
class Bounds:
    """One run's workspace and the tools it was given."""

    workspace: Path
    tools: frozenset[str]
    protected: tuple[str, ...] = ()

    def allow(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to run the call with; raises Denied when it may not run."""
        if tool == RESULT_TOOL or tool in TODO_TOOLS:
            return dict(arguments)
        if tool not in FILE_TOOLS or tool not in self.tools:
            raise Denied(f"the tool {tool} is not available here")
        name = _ARGUMENT[tool]
        given = arguments.get(name)
        if given is None and tool in ("Glob", "Grep"):
            given = "."
        real = self._real(given)
        inside = real.relative_to(self._root()).parts
        if _any(inside, _NEVER_READ):
            raise Denied(f"{_shown(given)} is not yours to read")
        if tool in _WRITERS and (_any(inside, PROTECTED) or _any(inside, self.protected)):
            raise Denied(f"{_shown(given)} is protected: it may be read but not changed")
        if tool in _WRITERS and not inside:
            raise Denied("the workspace itself is not a file")
        if tool == "Glob":
            _check_pattern(arguments.get("pattern"))
        if tool == "Grep" and arguments.get("glob") is not None:
            _check_pattern(arguments["glob"])
        _check_kind(real, tool)
        return {**arguments, name: str(real)}

    def _root(self) -> Path:
        return self.workspace.resolve(strict=True)

    def _real(self, given: Any) -> Path:
        if not isinstance(given, str) or not given:
            raise Denied("the path is missing or is not text")
        if len(given) > 4096 or any(ord(c) < 32 or ord(c) == 127 for c in given):
            raise Denied("the path is too long or holds control characters")
        # The CLI trims, expands `~` and normalises; a path that would change under that is not opened.
        if given != given.strip() or given.startswith("~") or "\\" in given:
            raise Denied(f"{_shown(given)} is not a plain path")
        if unicodedata.normalize("NFC", given) != given:
            raise Denied(f"{_shown(given)} is not in normal form (NFC)")
        root = self._root()
        try:
            real = (root / given).resolve()  # an absolute path replaces root; symlinks and `..` are followed
        except (OSError, RuntimeError, ValueError) as error:
            raise Denied(f"{_shown(given)} can't be resolved: {type(error).__name__}") from None
        if real != root and root not in real.parents:
            raise Denied(f"{_shown(given)} is outside the workspace")
        return real


def _any(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(p.casefold(), pattern.casefold()) for p in parts for pattern in patterns)


def _check_pattern(pattern: Any) -> None:
    if not isinstance(pattern, str) or not pattern:
        raise Denied("the pattern is missing or is not text")
    pieces = re.split(r"[/{},\\]", pattern)
    if pattern.strip() != pattern or pattern.startswith(("/", "~")) or ".." in pieces or "\\" in pattern:
        raise Denied(f"the pattern {_shown(pattern)} reaches outside the workspace")
    if any(p.startswith(("/", "~")) for p in re.split(r"[{},]", pattern)):
        raise Denied(f"the pattern {_shown(pattern)} reaches outside the workspace")
    if any(p.casefold() in (".git", ".env", ".npmrc") for p in pieces):
        raise Denied(f"the pattern {_shown(pattern)} names what is not yours to read")


def _check_kind(real: Path, tool: str) -> None:
    """A pipe or device would hang the reader; a directory is no file."""
    try:
        mode = real.stat().st_mode
    except OSError:
        return  # not there yet, or gone: the tool says so itself
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise Denied(f"{real.name} is not a plain file")
    if stat.S_ISREG(mode) and tool in _WRITERS and real.stat().st_nlink > 1:
        raise Denied(f"{real.name} is shared with another place (hard link) and may not be changed")


def _shown(given: Any) -> str:
    return repr(given if len(str(given)) <= 200 else str(given)[:200] + "…")
