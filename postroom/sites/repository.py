"""A site's git repository. The commit on main is the point after which an instruction is carried out."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import BadInput, Conflict, Missing, Unavailable
from postroom.sites import trailers
from postroom.sites.git import git, locks, ref_name, remote_address
from postroom.sites.tree import Entry, Tree, add_blob, read_files, read_tree, write_tree

MAIN = "refs/heads/main"
_TRIES = 5


@dataclass(frozen=True)
class Commit:
    """A commit on main: its id, and the instructions it carries out."""

    sha: str
    parent: str | None
    message: str
    instructions: tuple[str, ...]
    undoes: str | None

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


@dataclass(frozen=True)
class Merged:
    """Where an edit is on main; `already` when it had been put there before."""

    commit: str
    parent: str | None
    already: bool = False
    told: str = ""  # what its maker said of it, when only the commit knows that


def branch(edit: str) -> str:
    """The part of a branch name that stands for an edit: `edit:garden:7` becomes `garden-7`."""
    return ref_name(edit.removeprefix("edit:").replace(":", "-"))


def _nothing_to_check() -> None:
    return None


class Repository:
    """A bare repository on this machine; with `remote`, a copy of the one there, which then decides."""

    def __init__(self, path: Path, remote: str | None = None) -> None:
        self.path = path.resolve()
        self.remote = None if remote is None else remote_address(remote)
        if not (self.path / "HEAD").is_file():
            raise Missing(f"there is no repository at {self.path}")

    # making

    @classmethod
    def create(cls, path: Path, start: Path | None = None, *, remote: str | None = None) -> Repository:
        """The repository at `path`, made now if need be: from the remote, or from the files in `start`."""
        path = path.resolve()
        if not (path / "HEAD").is_file():
            making = path.with_name(f".{path.name}.making")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            git(making, "init", "--bare", "--quiet", "--initial-branch=main", "--template=", str(making))
            fresh = cls(making, remote)
            if remote is not None:
                fresh.fetch()
            if fresh._main() is None:
                if start is None:
                    raise Missing("the repository is empty and there are no files to begin with")
                fresh._begin(start)
            making.rename(path)  # whole or not at all
        return cls(path, remote)

    def _begin(self, start: Path) -> None:
        odd: list[str] = []
        leave_out = {"node_modules", "dist", ".astro"}
        entries = {
            found.path: Entry(found.mode, add_blob(self.path, found.content))
            for found in read_files(start, lambda path: path.rpartition("/")[2] in leave_out, odd)
        }
        if odd or not entries:
            raise BadInput(f"{start} can't be the beginning of a site: {', '.join(odd) or 'it is empty'}")
        commit = self._commit(write_tree(self.path, entries), [], "The site as it begins\n")
        self._swap(MAIN, commit, None)

    def clear_leftovers(self, seconds: float) -> None:
        """Remove the locks and indexes that killed processes left behind; git alone would be kept out for ever."""
        for left in (*locks(self.path), *self.path.glob("index.*")):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > seconds:
                    left.unlink()

    # reading

    def fetch(self) -> None:
        """Bring what the remote has."""
        if self.remote is not None:
            spec = "+refs/heads/*:refs/heads/*"
            git(
                self.path, "fetch", "--quiet", "--prune", "--no-tags", "--", self.remote, spec, timeout=120, remote=True
            )

    def _ref(self, name: str) -> str | None:
        code, out = git(self.path, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", codes=(0, 1))
        return out.decode().strip() if code == 0 else None

    def _main(self) -> str | None:
        return self._ref(MAIN)

    def head(self) -> str:
        """The commit main is at."""
        sha = self._main()
        if sha is None:
            raise Missing(f"{self.path} has no main branch")
        return sha

    def tree(self, commit: str) -> dict[str, Entry]:
        """The files of a commit by path."""
        return read_tree(self.path, commit)

    def history(self, limit: int | None = None) -> list[Commit]:
        """main's commits, newest first."""
        some = [f"--max-count={limit}"] if limit else []
        shape = "--format=%H%x01%P%x01%B"
        _, out = git(self.path, "log", "-z", "--first-parent", *some, shape, MAIN, "--")
        found = []
        for record in out.decode("utf-8", "replace").split("\0"):
            if not record.strip():
                continue
            sha, parents, message = record.split("\x01", 2)
            told = trailers.read(message)
            found.append(
                Commit(
                    sha=sha,
                    parent=parents.split()[0] if parents else None,
                    message=message.strip(),
                    instructions=tuple(told.get(trailers.INSTRUCTION, ())),
                    undoes=next(iter(told.get(trailers.UNDOES, ())), None),
                )
            )
        return found

    def told(self, commit: str) -> str:
        """What the maker of an edit said of it: the commit's message without its first line and our trailers."""
        _, out = git(self.path, "log", "--max-count=1", "--format=%B", commit, "--")
        return "\n\n".join(out.decode("utf-8", "replace").strip().split("\n\n")[1:-1])

    def instructions(self) -> dict[str, str]:
        """Every instruction that is on main, with the commit that carried it out."""
        return {instruction: commit.sha for commit in reversed(self.history()) for instruction in commit.instructions}

    # writing

    def _commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        ancestry = [word for parent in parents for word in ("-p", parent)]
        _, out = git(self.path, "commit-tree", tree, *ancestry, "-F", "-", stdin=message.encode())
        return out.decode().strip()

    def commit(self, entries: Tree, parent: str, message: str) -> str:
        """A commit of these files on top of `parent`; on no branch yet."""
        return self._commit(write_tree(self.path, entries), [parent], message)

    def _swap(self, ref: str, new: str, old: str | None) -> bool:
        """Set a branch only if it still is where it was: False when someone else was faster."""
        if self.remote is not None:
            lease = f"--force-with-lease={ref}:{old or ''}"
            code, _ = git(
                self.path, "push", "--quiet", "--porcelain", lease, "--", self.remote, f"{new}:{ref}",
                timeout=120, codes=(0, 1, 128),
            )  # fmt: skip
            if code != 0:
                there = self._there(ref)  # a push whose answer was lost has still happened
                if there != new:
                    if there == old:
                        raise Unavailable(f"the remote repository did not take {ref}")
                    return False
            git(self.path, "update-ref", ref, new)
            return True
        nothing = "0" * len(new)
        try:
            git(self.path, "update-ref", ref, new, old or nothing)
        except Exception:
            if self._ref(ref) == old:
                raise
            return self._ref(ref) == new
        return True

    def _there(self, ref: str) -> str | None:
        assert self.remote is not None
        _, out = git(self.path, "ls-remote", "--quiet", "--", self.remote, ref, timeout=60, remote=True)
        return out.decode().split()[0] if out.strip() else None

    def merged_tree(self, ours: str, theirs: str) -> str:
        """The tree of two commits put together; raises Conflict, whose `details["tree"]` has the marks in it."""
        names = ("--write-tree", "-z", "--name-only", "--no-messages")
        code, out = git(self.path, "merge-tree", *names, ours, theirs, codes=(0, 1))
        tree, *files = [part for part in out.decode("utf-8", "replace").split("\0") if part]
        if code == 0:
            return tree
        files = sorted(set(files))
        raise Conflict(f"this edit and the site's newest version differ in {', '.join(files)}", files=files, tree=tree)

    def merge(
        self,
        commit: str,
        *,
        subject: str,
        body: str = "",
        instructions: Sequence[str],
        guard: Callable[[], None] = _nothing_to_check,
    ) -> Merged:
        """Put an edit onto main as one commit that names its instructions: from here on it is done.

        `guard` is called just before main is moved. Instructions that are on main already are
        never put there twice; a part of them there and a part not is refused.
        """
        message = trailers.compose(subject, body, instructions)
        for _ in range(_TRIES):
            self.fetch()
            done = self.instructions()
            known = [instruction for instruction in instructions if instruction in done]
            if len(known) == len(instructions):
                return Merged(done[known[0]], None, already=True)
            if known:
                raise Conflict(f"on main already: {', '.join(known)}", files=[], instructions=known)
            head = self.head()
            new = self._commit(self.merged_tree(head, commit), [head], message)
            guard()
            if self._swap(MAIN, new, head):
                return Merged(new, head)
        raise Unavailable(f"main moved {_TRIES} times while this edit was being merged")

    def undo(self, instructions: Sequence[str], *, guard: Callable[[], None] = _nothing_to_check) -> Merged:
        """Take back the newest edit that still stands; raises Missing when there is none."""
        for _ in range(_TRIES):
            self.fetch()
            history = self.history()
            for commit in history:
                if set(instructions) & set(commit.instructions):
                    return Merged(commit.sha, commit.parent, already=True)
            undone = {commit.undoes for commit in history}
            last = next((c for c in history if c.instructions and not c.undoes and c.sha not in undone), None)
            if last is None or last.parent is None:
                raise Missing("there is no edit to undo", safe="There is no earlier edit that could be undone.")
            # two commits on top of the edit: main's files now, and the files before it; their merge is the revert
            now = self._commit(f"{history[0].sha}^{{tree}}", [last.sha], "now\n")
            before = self._commit(f"{last.parent}^{{tree}}", [last.sha], "before\n")
            tree = self.merged_tree(now, before)
            message = trailers.compose(f"Undo: {last.subject}", "", instructions, undoes=last.sha)
            new = self._commit(tree, [history[0].sha], message)
            guard()
            if self._swap(MAIN, new, history[0].sha):
                return Merged(new, history[0].sha)
        raise Unavailable(f"main moved {_TRIES} times during the undo")

    # work in progress

    def save_wip(self, edit: str, entries: Tree, base: str) -> str | None:
        """Keep unfinished work on `wip/{edit}`; the commit, or None when there is nothing to keep."""
        tree = write_tree(self.path, entries)
        _, there = git(self.path, "rev-parse", f"{base}^{{tree}}")
        if tree == there.decode().strip():
            return None
        ref = f"refs/heads/wip/{branch(edit)}"
        for _ in range(_TRIES):
            old = self._ref(ref)
            if old is not None:
                _, last = git(self.path, "rev-parse", f"{old}^{{tree}}")
                if last.decode().strip() == tree:
                    return old
            new = self._commit(tree, [base], f"Work in progress of {edit}\n")
            if self._swap(ref, new, old):
                return new
            self.fetch()
        raise Unavailable(f"wip/{branch(edit)} kept moving")

    def wip(self, edit: str) -> str | None:
        """The newest unfinished work of an edit."""
        return self._ref(f"refs/heads/wip/{branch(edit)}")

    def wips(self) -> dict[str, str]:
        """All unfinished work, by edit."""
        _, out = git(self.path, "for-each-ref", "--format=%(refname:lstrip=3)%00%(objectname)", "refs/heads/wip/")
        return dict(line.split("\0", 1) for line in out.decode().splitlines())

    def drop_wip(self, edit: str) -> None:
        """Forget the unfinished work of an edit."""
        ref = f"refs/heads/wip/{branch(edit)}"
        if self.remote is not None and self._there(ref) is not None:
            git(self.path, "push", "--quiet", "--", self.remote, f":{ref}", timeout=120, remote=True)
        git(self.path, "update-ref", "-d", ref)
