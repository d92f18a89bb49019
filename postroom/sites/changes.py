"""What differs between two versions of a site, for people to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
