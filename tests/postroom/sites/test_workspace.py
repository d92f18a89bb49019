"""What an agent gets, and what is taken back from it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from postroom.agent.job import Job
from postroom.errors import BadInput, LeaseLost, LimitReached, Missing, Unavailable
from postroom.sites import media_lock
from postroom.sites.media_lock import LOCK, MediaFile, for_media
from postroom.sites.places import Places
from postroom.sites.repository import Repository
from postroom.sites.studio import SAVE_SECONDS, Studio
from postroom.sites.workspace import Workspace, export

PICTURE = b"a picture"
SHA = hashlib.sha256(PICTURE).hexdigest()
MASTER = MediaFile("src/assets/mail/apples-1a2b3c4d.avif", f"{SHA}/master.avif")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "start"
    (root / "src/pages").mkdir(parents=True)
    (root / "package.json").write_text("{}")
    (root / ".npmrc").write_text("audit=false\n")
    (root / "astro.config.mjs").write_text("export default {}\n")
    (root / "src/pages/index.astro").write_text("hello\n")
    return Repository.create(tmp_path / "garden.git", root)


@pytest.fixture
def workspace(repository: Repository, tmp_path: Path) -> Workspace:
    return Workspace(repository, tmp_path / "work", repository.head())


def fetch(key: str) -> bytes:
    assert key.endswith("/master.avif")
    return PICTURE


def test_the_workspace_holds_the_site_and_no_git(workspace):
    assert (workspace.directory / "src/pages/index.astro").read_text() == "hello\n"
    assert not list(workspace.directory.rglob(".git"))


def test_new_changed_and_deleted_files_are_taken_back(workspace, repository):
    (workspace.directory / "src/pages/index.astro").unlink()
    (workspace.directory / "src/pages/about.astro").write_text("about\n")
    snapshot = workspace.snapshot()
    assert snapshot.changed == ("src/pages/about.astro", "src/pages/index.astro")
    assert snapshot.refused == ()
    merged = repository.merge(workspace.commit(snapshot, "edit:garden:1"), subject="x", instructions=["m1"])
    assert "src/pages/index.astro" not in repository.tree(merged.commit)


@pytest.mark.parametrize(
    "path", ["package.json", "package-lock.json", "astro.config.mjs", ".npmrc", ".claude/settings.json", LOCK]
)
def test_files_that_are_not_the_agents_to_write_stay_as_they_are(workspace, path):
    before = workspace.snapshot().entries.get(path)
    (workspace.directory / path).parent.mkdir(exist_ok=True)
    (workspace.directory / path).write_text('{"scripts": {"postinstall": "id"}}')
    snapshot = workspace.snapshot()
    assert path in snapshot.refused
    assert snapshot.entries.get(path) == before
    workspace.restore(snapshot)
    assert workspace.snapshot().refused == ()


def test_a_deleted_protected_file_comes_back(workspace):
    (workspace.directory / "package.json").unlink()
    snapshot = workspace.snapshot()
    assert snapshot.refused == ("package.json",)
    assert "package.json" in snapshot.entries
    workspace.restore(snapshot)
    assert (workspace.directory / "package.json").read_text() == "{}"


def test_a_git_directory_somebody_makes_is_only_a_name_that_is_left_out(workspace, repository, tmp_path):
    hooks = workspace.directory / ".git/hooks"
    hooks.mkdir(parents=True)
    (workspace.directory / ".git/config").write_text(f"[core]\n\tfsmonitor = touch {tmp_path}/ran\n")
    (workspace.directory / "src/.GIT").mkdir()
    (workspace.directory / "src/.GIT/config").write_text("x")
    snapshot = workspace.snapshot()
    workspace.save("edit:garden:1")
    assert snapshot.changed == ()
    assert not (tmp_path / "ran").exists()


def test_links_are_refused_wherever_they_point_and_never_followed(workspace, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (workspace.directory / "src/pages/a.md").symlink_to(tmp_path / "secret")
    (workspace.directory / "src/etc").symlink_to("/etc")
    snapshot = workspace.snapshot()
    assert set(snapshot.refused) == {"src/pages/a.md", "src/etc"}
    assert snapshot.changed == ()
    workspace.restore(snapshot)
    assert not (workspace.directory / "src/etc").exists()
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_pipe_is_refused_and_does_not_block(workspace):
    os.mkfifo(workspace.directory / "src/pipe")
    assert workspace.snapshot().refused == ("src/pipe",)


def test_a_file_that_is_too_large_is_a_limit_that_names_it(workspace, monkeypatch):
    from postroom.settings import settings

    monkeypatch.setenv("POSTROOM_SITE_FILE_MB", "1")
    settings.cache_clear()
    try:
        (workspace.directory / "big.bin").write_bytes(b"x" * (1024 * 1024 + 1))
        with pytest.raises(LimitReached, match=r"big\.bin is larger than 1 MB"):
            workspace.snapshot()
    finally:
        monkeypatch.undo()
        settings.cache_clear()


def test_media_is_laid_in_and_only_its_lock_is_in_git(workspace, repository, tmp_path):
    workspace.lay_media([MASTER], fetch)
    (workspace.directory / "src/pages/index.astro").write_text("with a picture\n")
    snapshot = workspace.snapshot()
    assert (workspace.directory / MASTER.path).read_bytes() == PICTURE
    assert MASTER.path not in snapshot.entries
    assert LOCK in snapshot.changed
    assert snapshot.refused == ()

    commit = workspace.commit(snapshot, "edit:garden:1")
    export(repository, repository.tree(commit), tmp_path / "export", fetch)
    assert (tmp_path / "export" / MASTER.path).read_bytes() == PICTURE


def test_a_media_file_that_is_not_what_it_was_stops_the_build(workspace, repository, tmp_path):
    workspace.lay_media([MASTER], fetch)
    commit = workspace.commit(workspace.snapshot(), "edit:garden:1")
    with pytest.raises(Missing, match="not the file it was"):
        export(repository, repository.tree(commit), tmp_path / "export", lambda key: b"another picture")


def test_media_is_fetched_once_and_then_comes_from_the_cache(workspace, repository, tmp_path):
    workspace.lay_media([MASTER], fetch, cache=tmp_path / "cache")
    commit = workspace.commit(workspace.snapshot(), "edit:garden:1")

    def unreachable(key: str) -> bytes:
        raise AssertionError("fetched again")

    export(repository, repository.tree(commit), tmp_path / "export", unreachable, cache=tmp_path / "cache")
    assert (tmp_path / "export" / MASTER.path).read_bytes() == PICTURE


def test_files_laid_among_the_media_by_somebody_else_are_refused(workspace):
    workspace.lay_media([MASTER], fetch)
    (workspace.directory / "src/assets/mail/own.html").write_text("x")
    assert workspace.snapshot().refused == ("src/assets/mail/own.html",)


def test_a_new_edit_goes_on_from_unfinished_work(workspace, repository, tmp_path):
    (workspace.directory / "src/pages/half.md").write_text("half")
    saved = workspace.save("edit:garden:1")
    workspace.close()
    resumed = Workspace(repository, tmp_path / "work2", repository.head(), start=saved)
    assert (resumed.directory / "src/pages/half.md").read_text() == "half"
    assert resumed.snapshot().changed == ("src/pages/half.md",)


@pytest.mark.parametrize("path", ["src/assets/mail/../../x", "/etc/passwd", "src/assets/mail/.x", "src/pages/x.astro"])
def test_a_lock_that_points_elsewhere_is_refused(path):
    with pytest.raises(BadInput, match="can't be the path"):
        media_lock.parse(f'{{"files": {{"{path}": {{"key": "k", "sha256": "{SHA}"}}}}}}'.encode())


def test_a_media_result_becomes_files_of_the_lock():
    picture = {
        "filename": "Äpfel & Birnen.HEIC",
        "kind": "image",
        "sha256": SHA,
        "files": {"master.avif": 1, "master.jpg": 2},
    }
    assert [(file.path, file.key) for file in for_media(picture)] == [
        (f"src/assets/mail/apfel-birnen-{SHA[:8]}.avif", f"{SHA}/master.avif"),
        (f"src/assets/mail/apfel-birnen-{SHA[:8]}.jpg", f"{SHA}/master.jpg"),
    ]
    moving = {**picture, "files": {"master.avif": 1, "master.png": 2, "animation.gif": 3}}
    assert [file.path for file in for_media(moving)] == [f"src/assets/mail/apfel-birnen-{SHA[:8]}.gif"]
    document = {"filename": "Price list.pdf", "kind": "document", "sha256": SHA, "files": {}}
    assert [(file.path, file.key) for file in for_media(document)] == [
        (f"src/assets/mail/price-list-{SHA[:8]}.pdf", f"{SHA}/Price list.pdf")
    ]
    with pytest.raises(BadInput, match="left out"):
        for_media({"filename": "bomb.png", "kind": "image", "sha256": None, "files": {}})


def test_work_that_was_looked_at_while_its_files_went_away_is_not_kept(repository: Repository, tmp_path: Path) -> None:
    """A slow look at the workspace may end after the edit has left it."""
    places = Places("garden", "example.com")

    async def leave() -> Studio:
        async with Studio(repository, places, "edit:garden:1", tmp_path / "studio") as studio:
            studio._workspace = Workspace(repository, studio.root / "site", repository.head())
        return studio

    studio = asyncio.run(leave())
    (studio.root / "site").mkdir(parents=True)  # as a look sees it that began before the files went
    with pytest.raises(LeaseLost):
        studio.save()
    assert repository.wip("edit:garden:1") is None


def test_unfinished_work_is_kept_every_half_minute_while_the_agent_works(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SAVE_SECONDS == 30
    monkeypatch.setattr("postroom.sites.studio.SAVE_SECONDS", 0.01)
    kept: list[str] = []

    async def work(job: Job, **_: object) -> None:
        assert job.workspace is not None
        for name in ("one.md", "two.md"):
            (job.workspace / name).write_text("half of it")
            async with asyncio.timeout(30):
                while (wip := repository.wip("edit:garden:1")) is None or name not in repository.tree(wip):
                    await asyncio.sleep(0.01)
            kept.append(name)
        raise Unavailable("killed")

    async def edit() -> None:
        async with Studio(repository, Places("garden", "example.com"), "edit:garden:1", tmp_path / "studio") as studio:
            await studio.make([], guard=lambda: None)

    monkeypatch.setattr("postroom.sites.studio.run_agent", work)
    with pytest.raises(Unavailable):
        asyncio.run(edit())
    assert kept == ["one.md", "two.md"]


@pytest.mark.parametrize(
    ("filename", "content_type", "ending"),
    [
        ("page.html", "text/plain", "txt"),
        ("app.js", "text/plain", "txt"),
        ("feed.xml", "text/plain", "txt"),
        ("evil.html", "application/pdf", "pdf"),
        ("evil.svg", "application/octet-stream", "bin"),
        ("plan.svg", "image/svg+xml", "svg"),
        ("prices.csv", "text/csv", "csv"),
        ("talk.odp", "application/vnd.oasis.opendocument.presentation", "odp"),
        ("noending", "application/octet-stream", ""),
    ],
)
def test_a_document_is_called_what_it_is_whatever_its_sender_says(
    filename: str, content_type: str, ending: str
) -> None:
    (file,) = for_media({"filename": filename, "kind": "document", "sha256": SHA, "content_type": content_type})
    assert file.path.rpartition(SHA[:8])[2] == (f".{ending}" if ending else "")
