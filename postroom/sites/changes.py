"""What differs between two versions of a site, for people to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from postroom.sites.git import git
from postroom.sites.repository import Repository

_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color")
_PAGE_ENDINGS = (".astro", ".md", ".mdx", ".html")


@dataclass(frozen=True)
class FileChange:
    """One changed file; lines are None for what is not text."""

    path: str
    kind: str  # added | changed | deleted
    added: int | None
    removed: int | None


def changed_files(repository: Repository, before: str, after: str) -> list[FileChange]:
    """The files that differ, with their counts of lines."""
    where = ("-r", "-z", "--no-renames", "--end-of-options", before, after, "--")
    _, kinds = git(repository.path, "diff-tree", "--name-status", *_PLAIN, *where)
    words = kinds.decode("utf-8", "replace").split("\0")
    kind_of = dict(zip(words[1::2], words[0::2], strict=False))
    _, counts = git(repository.path, "diff-tree", "--numstat", *_PLAIN, *where)
    found = []
    for record in counts.decode("utf-8", "replace").split("\0"):
        if record:
            added, removed, path = record.split("\t", 2)
            kind = {"A": "added", "D": "deleted"}.get(kind_of.get(path, "M"), "changed")
            text = added != "-"
            found.append(FileChange(path, kind, int(added) if text else None, int(removed) if text else None))
    return found


def diff(repository: Repository, before: str, after: str, *, limit: int = 200_000) -> str:
    """The difference as a patch, cut at `limit` characters."""
    where = ("-r", "-p", "--end-of-options", before, after, "--")
    _, out = git(repository.path, "diff-tree", *_PLAIN, *where)
    text = out.decode("utf-8", "replace")
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)\n"


def summary(changes: Iterable[FileChange]) -> str:
    """One line per file: `changed src/pages/about.astro (+3 -1)`."""
    return "\n".join(f"{c.kind} {c.path}" + ("" if c.added is None else f" (+{c.added} -{c.removed})") for c in changes)


def pages_of(paths: Iterable[str]) -> list[str]:
    """Addresses of the pages these source files are: `src/pages/about.astro` is `/about/`."""
    found = []
    for path in paths:
        if not path.startswith("src/pages/") or not path.endswith(_PAGE_ENDINGS) or "[" in path:
            continue
        name = path.removeprefix("src/pages/").rpartition(".")[0]
        if any(part.startswith("_") for part in name.split("/")):
            continue  # Astro makes no page of these
        name = "" if name == "index" else name.removesuffix("/index")
        found.append(f"/{name}/" if name else "/")
    return sorted(set(found))


def touched(dist: Path, sources: Iterable[str], said: Sequence[object] = (), deployed: Iterable[str] = ()) -> list[str]:
    """Addresses of the pages that an edit changed, each of them there to be looked at.

    Source files tell of some; `said` are those its maker names, for a page may be made of data or of a layout.
    When neither helps, the pages whose files went out (`deployed`) are it: all of them, after a change of the frame.
    """
    there = {_spoken(address): address for address in _addresses(dist)}
    named = [*pages_of(sources), *(one for one in said if isinstance(one, str))]
    found = {there[spoken] for one in named if (spoken := _spoken(one)) in there}
    return sorted(found or {_address(key) for key in deployed if key.endswith(".html")} & set(there.values()))


def _addresses(dist: Path) -> list[str]:
    keys = (path.relative_to(dist).as_posix() for path in dist.rglob("*.html"))
    return [_address(key) for key in keys if key not in ("404.html", "500.html")]  # shown in another page's place


def _address(key: str) -> str:
    """Where a visitor finds a built file: `/news/` for `news/index.html`."""
    return "/" + (key.removesuffix("index.html") if key == "index.html" or key.endswith("/index.html") else key)


def _spoken(address: str) -> str:
    """The page meant by an address, however it is written: `news`, `/news/`, `/news/index.html#today`."""
    path = unquote(re.split(r"[?#]", re.sub(r"^https?://[^/]*", "", address.strip()))[0]).strip("/")
    return path.removesuffix(".html").removesuffix("index").strip("/").casefold()
