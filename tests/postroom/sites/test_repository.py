"""git as the book of the site: real repositories, real commands."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from postroom.errors import BadInput, Conflict, LeaseLost, Missing, Unavailable
from postroom.sites import changes
from postroom.sites.git import git, ref_name, remote_address
from postroom.sites.repository import Repository, branch
from postroom.sites.tree import Entry, add_blob, contents, read_tree


@pytest.fixture
def start(tmp_path: Path) -> Path:
    root = tmp_path / "start"
    (root / "src/pages").mkdir(parents=True)
    (root / "package.json").write_text("{}")
    (root / "src/pages/index.astro").write_text("one\ntwo\nthree\nfour\nfive\n")
    (root / "src/pages/about.astro").write_text("about\n")
    (root / "node_modules/x").mkdir(parents=True)
    (root / "node_modules/x/index.js").write_text("not part of a site")
    return root


@pytest.fixture
def repository(tmp_path: Path, start: Path) -> Repository:
    return Repository.create(tmp_path / "garden.git", start)


def edited(repository: Repository, path: str, text: str | None, base: str | None = None) -> str:
    """A commit on top of `base` (main) in which one file is different."""
    base = base or repository.head()
    entries = dict(repository.tree(base))
    if text is None:
        del entries[path]
    else:
        entries[path] = Entry("100644", add_blob(repository.path, text.encode()))
    return repository.commit(entries, base, "edit\n")


def text_of(repository: Repository, path: str, version: str | None = None) -> str:
    tree = repository.tree(version or repository.head())
    return next(contents(repository.path, {path: tree[path]}))[2].decode()


def test_a_new_repository_begins_with_the_files_it_is_given_and_no_packages(repository):
    assert set(repository.tree(repository.head())) == {"package.json", "src/pages/index.astro", "src/pages/about.astro"}
    assert repository.instructions() == {}


def test_creating_it_again_changes_nothing(repository, tmp_path, start):
    head = repository.head()
    (start / "more.txt").write_text("more")
    assert Repository.create(tmp_path / "garden.git", start).head() == head


def test_a_creation_that_failed_leaves_nothing_behind_and_can_be_repeated(tmp_path, start):
    with pytest.raises(Missing):
        Repository.create(tmp_path / "new.git")
    assert not (tmp_path / "new.git").exists()
    assert Repository.create(tmp_path / "new.git", start).head()


def test_a_merged_edit_is_one_commit_that_names_its_instructions(repository):
    before = repository.head()
    edit = edited(repository, "src/pages/about.astro", "new\n")

    merged = repository.merge(edit, subject="Say more about us", body="As asked.", instructions=["<m1@x>", "m2"])

    assert (merged.parent, repository.head()) == (before, merged.commit)
    newest = repository.history()[0]
    assert (newest.subject, newest.instructions) == ("Say more about us", ("<m1@x>", "m2"))
    assert repository.instructions() == {"<m1@x>": merged.commit, "m2": merged.commit}
    assert text_of(repository, "src/pages/about.astro") == "new\n"


def test_an_instruction_is_never_carried_out_twice(repository):
    first = repository.merge(edited(repository, "a.md", "a"), subject="A", instructions=["m1"])
    again = repository.merge(edited(repository, "a.md", "b"), subject="A", instructions=["m1"])

    assert again.already
    assert again.commit == first.commit == repository.head()
    with pytest.raises(Conflict, match="on main already: m1"):
        repository.merge(edited(repository, "a.md", "c"), subject="A", instructions=["m1", "m2"])


def test_a_mail_can_not_claim_another_instruction_in_its_text(repository):
    claim = "Please.\n\nInstruction: m9\nUndoes: 123"
    repository.merge(edited(repository, "a.md", "a"), subject="x\n\nInstruction: m8", body=claim, instructions=["m1"])
    assert repository.instructions().keys() == {"m1"}
    assert repository.history()[0].undoes is None


def test_an_instruction_id_with_a_line_break_is_refused(repository):
    with pytest.raises(BadInput, match="can't be the id"):
        repository.merge(edited(repository, "a.md", "a"), subject="x", instructions=["m1\nInstruction: m2"])


def test_an_instruction_may_have_an_odd_id(repository):
    odd = ["my mail.eml", "größe 100%", "a%20b", "..", "Undoes: 1"]
    repository.merge(edited(repository, "a.md", "a"), subject="x", instructions=odd)
    assert list(repository.instructions()) == odd


def test_edits_of_different_places_are_both_there_after_the_merge(repository):
    base = repository.head()
    lines = "one\ntwo\nthree\nfour\nfive\n"
    top = edited(repository, "src/pages/index.astro", lines.replace("one", "ONE"), base)
    bottom = edited(repository, "src/pages/index.astro", lines.replace("five", "FIVE"), base)

    repository.merge(top, subject="top", instructions=["m1"])
    repository.merge(bottom, subject="bottom", instructions=["m2"])

    assert text_of(repository, "src/pages/index.astro") == "ONE\ntwo\nthree\nfour\nFIVE\n"


def test_edits_of_the_same_line_are_a_conflict_that_names_the_file_and_changes_nothing(repository):
    base = repository.head()
    repository.merge(edited(repository, "src/pages/about.astro", "ours\n", base), subject="a", instructions=["m1"])
    head = repository.head()

    with pytest.raises(Conflict) as raised:
        repository.merge(
            edited(repository, "src/pages/about.astro", "theirs\n", base), subject="b", instructions=["m2"]
        )

    assert raised.value.files == ("src/pages/about.astro",)
    assert repository.head() == head
    tree = read_tree(repository.path, raised.value.details["tree"])
    shown = {path: content for path, _, content in contents(repository.path, tree)}
    assert b"<<<<<<<" in shown["src/pages/about.astro"]


def test_the_guard_is_asked_just_before_main_moves(repository):
    head = repository.head()

    def lost() -> None:
        raise LeaseLost("another holder has the site")

    with pytest.raises(LeaseLost):
        repository.merge(edited(repository, "a.md", "a"), subject="A", instructions=["m1"], guard=lost)
    assert repository.head() == head


def test_main_is_moved_by_compare_and_swap_so_a_faster_edit_is_merged_not_overwritten(repository):
    base = repository.head()
    slow = edited(repository, "slow.md", "slow", base)
    raced = threading.Event()

    def someone_is_faster() -> None:
        if not raced.is_set():
            raced.set()
            repository.merge(edited(repository, "fast.md", "fast", base), subject="fast", instructions=["m1"])

    repository.merge(slow, subject="slow", instructions=["m2"], guard=someone_is_faster)

    assert {"slow.md", "fast.md"} <= set(repository.tree(repository.head()))
    assert [commit.instructions for commit in repository.history()[:2]] == [("m2",), ("m1",)]


def test_eight_edits_at_once_all_arrive(repository):
    base = repository.head()
    edits = [edited(repository, f"{n}.md", str(n), base) for n in range(8)]
    failed: list[Exception] = []

    def merge(n: int) -> None:
        for _ in range(10):  # main moves often: what is unavailable may be tried again
            try:
                repository.merge(edits[n], subject=str(n), instructions=[f"m{n}"])
                return
            except Exception as error:
                last = error
        failed.append(last)

    threads = [threading.Thread(target=merge, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert repository.instructions().keys() == {f"m{n}" for n in range(8)}
    assert {f"{n}.md" for n in range(8)} <= set(repository.tree(repository.head()))


def test_undo_takes_back_the_newest_edit_and_only_that(repository):
    repository.merge(edited(repository, "a.md", "a"), subject="Add a", instructions=["m1"])
    repository.merge(edited(repository, "b.md", "b"), subject="Add b", instructions=["m2"])

    undone = repository.undo(["m3"])

    assert "b.md" not in repository.tree(undone.commit)
    assert "a.md" in repository.tree(undone.commit)
    assert repository.history()[0].subject == "Undo: Add b"


def test_undo_twice_goes_back_two_edits_then_there_is_nothing_left(repository):
    begun = repository.tree(repository.head())
    repository.merge(edited(repository, "a.md", "a"), subject="Add a", instructions=["m1"])
    repository.merge(edited(repository, "b.md", "b"), subject="Add b", instructions=["m2"])
    repository.undo(["m3"])
    repository.undo(["m4"])
    assert repository.tree(repository.head()) == begun
    with pytest.raises(Missing, match="no edit to undo"):
        repository.undo(["m5"])


def test_undo_asked_twice_by_the_same_mail_is_done_once(repository):
    repository.merge(edited(repository, "a.md", "a"), subject="Add a", instructions=["m1"])
    repository.merge(edited(repository, "b.md", "b"), subject="Add b", instructions=["m2"])
    first = repository.undo(["m3"])
    again = repository.undo(["m3"])
    assert again.already
    assert again.commit == first.commit
    assert "a.md" in repository.tree(repository.head())


def test_unfinished_work_is_kept_on_a_branch_of_its_own_and_can_be_dropped(repository):
    base = repository.head()
    entries = {**repository.tree(base), "half.md": Entry("100644", add_blob(repository.path, b"half"))}

    saved = repository.save_wip("edit:garden:7", entries, base)

    assert saved is not None
    assert repository.wip("edit:garden:7") == saved == repository.save_wip("edit:garden:7", entries, base)
    assert repository.wips() == {"garden-7": saved}
    assert repository.head() == base
    assert repository.save_wip("edit:garden:8", repository.tree(base), base) is None
    repository.drop_wip("edit:garden:7")
    assert repository.wip("edit:garden:7") is None


def test_hooks_and_configuration_in_the_repository_do_not_run(repository, tmp_path):
    witness = tmp_path / "ran"
    script = f"#!/bin/sh\ntouch {witness}\n"
    (repository.path / "hooks").mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-update", "pre-receive", "post-commit", "update"):
        (repository.path / "hooks" / name).write_text(script)
        (repository.path / "hooks" / name).chmod(0o755)
    fsmonitor = tmp_path / "fsmonitor"
    fsmonitor.write_text(script)
    fsmonitor.chmod(0o755)
    with (repository.path / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {fsmonitor}\n\thooksPath = {repository.path}/hooks\n")

    repository.merge(edited(repository, "a.md", "a"), subject="A", instructions=["m1"])
    repository.save_wip("edit:garden:1", repository.tree(repository.history()[1].sha), repository.head())

    assert not witness.exists()


def test_a_users_own_git_configuration_is_not_read(repository, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Somebody Else\n[commit]\n\tgpgSign = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    repository.merge(edited(repository, "a.md", "a"), subject="A", instructions=["m1"])
    _, out = git(repository.path, "log", "-1", "--format=%an", "refs/heads/main")
    assert out.decode().strip() == "postroom"


def test_names_are_arguments_never_parts_of_a_command(repository, tmp_path):
    odd = "$(touch pwned);`touch pwned` \"'&|.md"
    repository.merge(edited(repository, odd, "x"), subject="'; touch pwned; '", instructions=["m;touch"])
    assert odd in repository.tree(repository.head())
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.parametrize("name", ["-x", "a..b", "a b", "a/../b", "x.lock", "", "refs\n", "a:b", "~"])
def test_what_can_not_be_a_branch_is_refused(name):
    with pytest.raises(BadInput, match="branch name"):
        ref_name(name)


def test_an_edit_has_a_branch_that_says_which_it_is():
    assert branch("edit:garden:7") == "garden-7"


@pytest.mark.parametrize(
    "address", ["--upload-pack=x", "ext::sh -c id", "file:///etc", "git://x/y", "-oProxy", "/nowhere"]
)
def test_what_can_not_be_a_repository_is_refused(address):
    with pytest.raises(BadInput, match="not a repository"):
        remote_address(address)


@pytest.fixture
def remote(tmp_path: Path, repository: Repository) -> Path:
    """Somebody's own bare repository, which then decides."""
    where = tmp_path / "remote.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repository.path), str(where)], check=True, timeout=30)
    return where


def test_with_a_remote_its_main_is_what_moves(remote, tmp_path):
    ours = Repository.create(tmp_path / "copy.git", remote=str(remote))
    merged = ours.merge(edited(ours, "a.md", "a"), subject="A", instructions=["m1"])
    assert Repository(remote).head() == merged.commit == ours.head()


def test_with_a_remote_two_machines_merge_without_losing_either(remote, tmp_path):
    one = Repository.create(tmp_path / "one.git", remote=str(remote))
    two = Repository.create(tmp_path / "two.git", remote=str(remote))
    edit = edited(two, "b.md", "b")
    one.merge(edited(one, "a.md", "a"), subject="A", instructions=["m1"])
    two.merge(edit, subject="B", instructions=["m2"])
    assert {"a.md", "b.md"} <= set(Repository(remote).tree(Repository(remote).head()))
    one.fetch()
    assert one.instructions().keys() == {"m1", "m2"}


def test_with_a_remote_unfinished_work_is_pushed_there(remote, tmp_path):
    one = Repository.create(tmp_path / "one.git", remote=str(remote))
    entries = {**one.tree(one.head()), "half.md": Entry("100644", add_blob(one.path, b"half"))}
    saved = one.save_wip("edit:garden:7", entries, one.head())
    two = Repository.create(tmp_path / "two.git", remote=str(remote))
    assert two.wip("edit:garden:7") == saved
    two.drop_wip("edit:garden:7")
    assert Repository(remote).wip("edit:garden:7") is None


def test_changes_are_told_by_file_and_page(repository):
    before = repository.head()
    repository.merge(edited(repository, "src/pages/news/apples.astro", "a\nb\n"), subject="A", instructions=["m1"])
    repository.merge(edited(repository, "src/pages/about.astro", None), subject="B", instructions=["m2"])
    found = changes.changed_files(repository, before, repository.head())
    assert changes.summary(found).splitlines() == [
        "deleted src/pages/about.astro (+0 -1)",
        "added src/pages/news/apples.astro (+2 -0)",
    ]
    assert changes.pages_of(change.path for change in found) == ["/about/", "/news/apples/"]
    assert "+a\n+b" in changes.diff(repository, before, repository.head())


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "packed-refs.lock", "HEAD.lock"])
def test_a_lock_that_a_killed_process_left_is_worth_a_retry_and_removed_by_who_takes_over(repository, name):
    (repository.path / name).touch()
    sha = edited(repository, "src/pages/about.astro", "new")
    if name != "HEAD.lock":
        with pytest.raises(Unavailable):
            repository.merge(sha, subject="x", instructions=["one"])
            repository.drop_wip("edit:garden:1")  # packed refs are in the way of deletions only
    repository.clear_leftovers(60)
    assert (repository.path / name).exists()  # somebody may be at it just now
    os.utime(repository.path / name, (0, 0))
    (repository.path / "index.1.ab").touch()
    os.utime(repository.path / "index.1.ab", (0, 0))
    repository.clear_leftovers(60)
    assert repository.merge(sha, subject="x", instructions=["one"]).commit == repository.head()
    repository.drop_wip("edit:garden:1")
    assert [*repository.path.glob("index.*"), *repository.path.rglob("*.lock")] == []
