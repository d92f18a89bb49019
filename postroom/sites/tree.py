"""A site's files between a directory and git, byte for byte: no filters, no attributes, no links followed.

The directory belongs to strangers. So git never works in it: files are read here with O_NOFOLLOW,
hashed, and written as objects; a `.git` somebody put there is only a name that is left out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from postroom.errors import BadInput, LimitReached, OurFault
from postroom.settings import settings
from postroom.sites.git import git

_MB = 1024 * 1024
MOST_FILES = 20_000


@dataclass(frozen=True)
class Entry:
    """One file of a tree."""

    mode: str  # 100644, 100755 or 120000
    sha: str


Tree = Mapping[str, Entry]


def read_tree(repository: Path, treeish: str) -> dict[str, Entry]:
    """The files of a commit or tree by path."""
    _, out = git(repository, "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", treeish)
    found: dict[str, Entry] = {}
    for record in out.split(b"\0"):
        if record:
            meta, _, name = record.partition(b"\t")
            mode, kind, sha = meta.decode().split()
            if kind == "blob":  # a submodule is not part of a site
                found[os.fsdecode(name)] = Entry(mode, sha)
    return found


def write_tree(repository: Path, entries: Tree) -> str:
    """The id of the tree made of these files."""
    index = repository / f"index.{os.getpid()}.{os.urandom(4).hex()}"
    lines = b"".join(f"{e.mode} {e.sha}\t".encode() + os.fsencode(path) + b"\0" for path, e in sorted(entries.items()))
    # an index of its own per call: two edits of one repository never share one
    try:
        git(repository, "update-index", "-z", "--index-info", stdin=lines, index=index)
        _, out = git(repository, "write-tree", index=index)
        return out.decode().strip()
    finally:
        index.unlink(missing_ok=True)
        index.with_name(index.name + ".lock").unlink(missing_ok=True)


def add_blob(repository: Path, content: bytes) -> str:
    """The id of a file's content, stored."""
    _, out = git(repository, "hash-object", "-w", "-t", "blob", "--no-filters", "--stdin", stdin=content)
    return out.decode().strip()


def blob_id(content: bytes, like: str) -> str:
    """What git calls this content, in the hash that `like` is written in."""
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content))
    digest.update(content)
    return digest.hexdigest()


def contents(repository: Path, entries: Tree) -> Iterator[tuple[str, Entry, bytes]]:
    """Every file with its bytes."""
    if not entries:
        return
    wanted = list(entries.items())
    _, out = git(repository, "cat-file", "--batch", stdin="".join(f"{e.sha}\n" for _, e in wanted).encode())
    at = 0
    for path, entry in wanted:
        end = out.index(b"\n", at)
        words = out[at:end].split()
        if len(words) != 3 or words[1] != b"blob":
            raise OurFault(f"{path}: its content ({entry.sha}) is not in the repository")
        size = int(words[2])
        yield path, entry, out[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _inside(path: str) -> bool:
    parts = path.split("/")
    return (
        bool(path) and not path.startswith("/") and not any(p in ("", ".", "..") or p.lower() == ".git" for p in parts)
    )


def _stays_inside(path: str, target: str) -> bool:
    where = os.path.normpath(PurePosixPath(path).parent / target)
    return not target.startswith("/") and not where.startswith("..")


def lay_out(repository: Path, entries: Tree, directory: Path) -> None:
    """Write the files of a tree into an empty directory of ours."""
    links: list[tuple[str, str]] = []
    for path, entry, content in contents(repository, entries):
        if not _inside(path):
            raise BadInput(f"the repository holds a file named {path!r}, which a site can't have")
        if entry.mode == "120000":
            links.append((path, os.fsdecode(content)))
            continue
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if entry.mode == "100755" else 0o644)
    for path, points_to in links:  # last, so that nothing is ever written through one
        if not _stays_inside(path, points_to):
            raise BadInput(f"{path} in the repository is a link to {points_to!r}, outside of the site")
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).symlink_to(points_to)


@dataclass(frozen=True)
class Found:
    """A file in a directory: its mode and bytes."""

    path: str
    mode: str
    content: bytes


def read_files(directory: Path, skip: Callable[[str], bool], odd: list[str]) -> Iterator[Found]:
    """Every regular file below a directory of strangers; what is neither file nor link is named in `odd`.

    `skip` is asked with each path, directories too. Raises LimitReached for a site that is too large.
    """
    largest, total, count = settings().site_file_mb * _MB, 0, 0
    for at, directories, files, handle in os.fwalk(directory, follow_symlinks=False):
        here = os.path.relpath(at, directory)
        prefix = "" if here == "." else f"{here}/"
        directories[:] = sorted(name for name in directories if name.lower() != ".git" and not skip(prefix + name))
        for name in sorted((*files, *(d for d in directories if _is_link(d, handle)))):
            path = prefix + name
            if name.lower() == ".git" or skip(path):
                continue
            count += 1
            if count > MOST_FILES:
                raise LimitReached(f"the site has more than {MOST_FILES} files")
            if _is_link(name, handle):
                yield Found(path, "120000", os.fsencode(os.readlink(name, dir_fd=handle)))
                continue
            found = _read(name, handle, path, largest, odd)
            if found is not None:
                total += len(found.content)
                if total > settings().site_total_mb * _MB:
                    raise LimitReached(f"the site is larger than {settings().site_total_mb} MB")
                yield found


def _is_link(name: str, handle: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _read(name: str, handle: int, path: str, largest: int, odd: list[str]) -> Found | None:
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except FileNotFoundError:
        return None  # gone since it was listed: somebody is working there
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.ENODEV):
            odd.append(path)
            return None
        raise
    with os.fdopen(number, "rb") as stream:
        kind = os.fstat(number)
        if not stat.S_ISREG(kind.st_mode):
            odd.append(path)
            return None
        if kind.st_size > largest:
            raise LimitReached(f"{path} is larger than {largest // _MB} MB")
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise LimitReached(f"{path} is larger than {largest // _MB} MB")
    return Found(path, "100755" if kind.st_mode & stat.S_IXUSR else "100644", content)
