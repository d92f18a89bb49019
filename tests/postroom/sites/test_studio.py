"""Where an edit is made: what came with the mails lies there under names that pages can use."""

import hashlib
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import Image

from postroom.agent.job import Instruction
from postroom.aws.clients import client
from postroom.errors import Conflict
from postroom.media.bucket import BucketShelf
from postroom.media.prepare import prepare
from postroom.media.result import MediaFile, MediaResult
from postroom.media.store import MediaStore
from postroom.settings import settings
from postroom.sites.media_lock import LOCK, parse
from postroom.sites.places import Places
from postroom.sites.repository import Repository
from postroom.sites.studio import Studio, Wish, media_files, told
from postroom.sites.tree import Entry, add_blob, contents
from tests.fixtures.sites import shared_packages
from tests.postroom.media.pictures import encoded, noisy


@pytest.fixture
def places(local_aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """A site with a media bucket and a data directory of its own, which the build's user can enter."""
    with tempfile.TemporaryDirectory(prefix="postroom-test-") as data:
        Path(data).chmod(0o755)
        monkeypatch.setenv("POSTROOM_DATA", data)
        monkeypatch.setenv("POSTROOM_PACKAGES", str(shared_packages()))
        settings.cache_clear()
        found = Places(f"t{uuid.uuid4().hex[:10]}", "example.com")
        client("s3").create_bucket(
            Bucket=found.media_bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield found
    settings.cache_clear()


def moving() -> bytes:
    frames = [noisy().convert("P"), Image.new("P", (96, 64)), noisy().convert("P")]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=80)


async def prepared(places: Places, files: dict[str, bytes], message_id: str) -> list[MediaResult]:
    store = MediaStore(BucketShelf(client("s3"), places.media_bucket))
    return await prepare([MediaFile(name, data) for name, data in files.items()], store, message_id=message_id)


def wish(results: list[MediaResult], message_id: str) -> Wish:
    said = Instruction(message_id, "owner@example.com", "Look", "See these.", datetime(2026, 5, 1, tzinfo=UTC))
    return Wish(said, [result.as_json() for result in results if result.used])


async def test_every_file_of_a_mail_reaches_the_page_whatever_its_name(
    places: Places, garden: Repository, packages: Path
) -> None:
    files = {
        "_DSC0001.jpg": encoded(noisy(40, 30), "JPEG"),
        "photo.jpg": encoded(noisy(41, 30), "JPEG"),
        "photo.png": encoded(noisy(42, 30), "PNG"),
        "猫.jpg": encoded(noisy(43, 30), "JPEG"),
        "犬.jpg": encoded(noisy(44, 30), "JPEG"),
        "waves.gif": moving(),
        "документ.pdf": b"%PDF-1.4 one " + b"x" * 9000,
        "a..pdf": b"%PDF-1.4 two " + b"x" * 9000,
        f"-{'x' * 90}_-.pdf": b"%PDF-1.4 three " + b"x" * 9000,
    }
    results = await prepared(places, files, "m1")
    assert [result.error for result in results] == [None] * len(files)
    async with Studio(garden, places, "edit:t:1", places.work("edit-t-1-1"), driver="literal") as studio:
        edited = await studio.make([wish(results, "m1")], guard=lambda: None)
        page = (edited.built.dist / "news/look/index.html").read_text()
        made = {file.name.rpartition(".")[2] for file in (edited.built.dist / "_astro").iterdir()}
    tree = garden.tree(edited.commit)
    ((_, _, lock),) = contents(garden.path, {LOCK: tree[LOCK]})
    kept = parse(lock)
    assert {file.sha256 for file in kept.values()} >= {r.sha256 for r in results if not r.animated}
    assert not any(file.key.startswith("documents/") for file in kept.values())  # pages refer to them: for good
    assert len(kept) == 5 * 2 + 1 + 3
    assert page.count("<picture") == 6
    assert page.count('type="image/avif"') == 5  # the animation moves for everybody
    assert page.count(".pdf") >= 3
    assert {"avif", "jpg", "gif", "pdf"} <= made


async def test_documents_named_in_any_script_are_read(places: Places, tmp_path: Path) -> None:
    results = await prepared(places, {"список.txt": b"Bread, milk."}, "m2")
    for file in media_files([wish(results, "m2")]):
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(b"Bread, milk.")
    (medium,) = (await told(wish(results, "m2"), tmp_path)).media
    assert medium.text == "Bread, milk."


async def test_a_mail_that_is_done_once_more_finds_its_documents(places: Places) -> None:
    results = await prepared(places, {"menu.pdf": b"%PDF-1.4 menu"}, "m3")
    (file,) = media_files([wish(results, "m3:r1")])
    assert Studio(None, places, "edit:t:1", Path())._fetch(file.key) == b"%PDF-1.4 menu"  # type: ignore[arg-type]
    assert file.sha256 == hashlib.sha256(b"%PDF-1.4 menu").hexdigest()


async def test_two_versions_that_were_not_joined_are_never_published(places: Places, garden: Repository) -> None:
    base, path = garden.head(), "src/pages/about.md"

    def edited(text: bytes) -> str:
        files = {**garden.tree(base), path: Entry("100644", add_blob(garden.path, text))}
        return garden.commit(files, base, "edit\n")

    garden.merge(edited(b"ours\n"), subject="a", instructions=["m1"])
    theirs = edited(b"theirs\n")
    with pytest.raises(Conflict) as conflict:
        garden.merge(theirs, subject="b", instructions=["m2"])
    async with Studio(garden, places, "edit:t:2", places.work("edit-t-2-1"), driver="literal") as studio:
        with pytest.raises(Conflict, match=f"left both in {path}"):  # `literal` does not think, and joins nothing
            await studio.settle([wish([], "m2")], conflict.value, guard=lambda: None)
