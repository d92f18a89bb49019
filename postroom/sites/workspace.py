"""What an agent gets: the site's files in a plain directory, with the mail's media laid in.

There is no `.git` in it. What the agent leaves is read back file by file; files that are not
its to write are taken from the site as it was, whatever stands in the directory.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import BadInput, Missing
from postroom.sites import media_lock
from postroom.sites.media_lock import LOCK, MEDIA, Fetch, MediaFile
from postroom.sites.repository import Repository
from postroom.sites.tree import Entry, add_blob, blob_id, contents, lay_out, read_files, read_tree

# Files that decide what is installed and how the build itself is set up.
PROTECTED = (
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*"),
    *("astro.config.*", "CLAUDE.md", LOCK),
)
_MADE_BY_BUILDS = ("node_modules", "dist")


def protected(path: str) -> bool:
    """Is this file not the agent's to write? Configuration, locks, and every dot file at the top."""
    top = path.partition("/")[0]
    return top.startswith(".") or any(fnmatch.fnmatchcase(path.lower(), name.lower()) for name in PROTECTED)


def _left_out(path: str) -> bool:
    return path.partition("/")[0] in _MADE_BY_BUILDS or path == MEDIA or path.startswith(f"{MEDIA}/")


@dataclass(frozen=True)
class Snapshot:
    """The workspace at one moment, as files git knows; `refused` were touched but are not the agent's to write."""

    entries: dict[str, Entry]
    changed: tuple[str, ...]
    refused: tuple[str, ...]


class Workspace:
    """One edit's directory, begun from `base`; close it to remove it."""

    def __init__(self, repository: Repository, directory: Path, base: str, start: str | None = None) -> None:
        """Lay out the files of `start` (a tree or commit; default `base`) in a new directory."""
        self.repository = repository
        self.directory = directory.resolve()
        self.base = base
        self._before = read_tree(repository.path, base)
        self.directory.mkdir(parents=True)  # an existing one belongs to somebody
        begun = self._before if start is None else read_tree(repository.path, start)
        lay_out(repository.path, begun, self.directory)
        self.media: dict[str, MediaFile] = {}
        if LOCK in begun:
            self.media = media_lock.parse(_content(repository, {LOCK: begun[LOCK]}))

    def lay_media(self, files: Iterable[MediaFile], fetch: Fetch, *, cache: Path | None = None) -> list[MediaFile]:
        """Lay a mail's masters and documents into the workspace and into the lock, beside those already there."""
        wanted = {**self.media, **{file.path: file for file in files}}
        laid = media_lock.lay(wanted.values(), self.directory, fetch, cache=cache)
        self.media = {file.path: file for file in laid}
        if self.media:
            (self.directory / LOCK).write_bytes(media_lock.render(self.media))
        return laid

    def _ours(self) -> dict[str, Entry]:
        """The protected files as they must be: main's, and our own lock."""
        kept = {path: entry for path, entry in self._before.items() if protected(path)}
        if self.media:
            kept[LOCK] = Entry("100644", add_blob(self.repository.path, media_lock.render(self.media)))
        return kept

    def snapshot(self) -> Snapshot:
        """Read the workspace, which may be in use; nothing in it is run, followed or believed."""
        ours = self._ours()
        entries, refused = dict(ours), list[str]()
        like = next((entry.sha for entry in self._before.values()), "0" * 40)
        seen: set[str] = set()
        for found in read_files(self.directory, _left_out, refused):
            known = ours.get(found.path) if protected(found.path) else self._before.get(found.path)
            sha = blob_id(found.content, like)
            if known is not None and known.sha == sha and known.mode[:2] == found.mode[:2]:
                seen.add(found.path)
                entries[found.path] = known
            elif protected(found.path) or found.mode == "120000":
                refused.append(found.path)
                seen.add(found.path)
            else:
                seen.add(found.path)
                entries[found.path] = Entry(found.mode, add_blob(self.repository.path, found.content))
        refused += [path for path in ours if path not in seen]
        refused += self._strange_media()
        paths = entries.keys() | self._before.keys()
        changed = tuple(sorted(path for path in paths if entries.get(path) != self._before.get(path)))
        return Snapshot(entries, changed, tuple(sorted(set(refused))))

    def _strange_media(self) -> list[str]:
        """What lies among the mail's media and was not laid there by us."""
        where = self.directory / MEDIA
        if any(parent.is_symlink() for parent in (where, *where.parents) if parent.is_relative_to(self.directory)):
            return []  # such a link is refused itself
        there = [
            (Path(at) / name).relative_to(self.directory).as_posix()
            for at, directories, files in os.walk(where, followlinks=False)
            for name in (*files, *(d for d in directories if (Path(at) / d).is_symlink()))
        ]
        return [path for path in there if path not in self.media]

    def restore(self, snapshot: Snapshot) -> None:
        """Put back what was refused, for an agent that is to go on working; call it while none is at work."""
        for path in sorted(snapshot.refused):  # a link comes before what seems to lie behind it
            target = self.directory / path
            if any((self.directory / parent).is_symlink() for parent in Path(path).parents):
                continue
            if target.is_symlink() or not target.is_dir():
                target.unlink(missing_ok=True)
            else:
                shutil.rmtree(target)
        right = {path: entry for path, entry in self._before.items() if not protected(path)} | self._ours()
        back = {path: entry for path, entry in right.items() if path in snapshot.refused}
        lay_out(self.repository.path, back, self.directory)

    def commit(self, snapshot: Snapshot, edit: str) -> str:
        """The snapshot as a commit on top of the base, ready to be merged."""
        return self.repository.commit(snapshot.entries, self.base, f"Edit {edit}\n")

    def save(self, edit: str, *, guard: Callable[[], None] = lambda: None) -> str | None:
        """Keep the work so far on `wip/{edit}`; `guard` says, once it has been looked at, whether it still may be."""
        entries = self.snapshot().entries
        guard()
        return self.repository.save_wip(edit, entries, self.base)

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def _content(repository: Repository, one: dict[str, Entry]) -> bytes:
    for _, _, content in contents(repository.path, one):
        return content
    raise Missing("nothing asked for")


def export(
    repository: Repository, entries: dict[str, Entry], directory: Path, fetch: Fetch, *, cache: Path | None = None
) -> None:
    """Write a version of the site with all its media into a new directory, ready for a build."""
    directory.mkdir(parents=True)
    lay_out(repository.path, entries, directory)
    if LOCK in entries:
        listed = media_lock.parse(_content(repository, {LOCK: entries[LOCK]}))
        media_lock.lay(listed.values(), directory, fetch, cache=cache)
    if not (directory / "package.json").is_file():
        raise BadInput("the site has no package.json")
