"""A mail's files become media once, whatever happens on the way."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from postroom.errors import Unavailable
from postroom.media.bucket import BucketShelf
from postroom.media.darkroom import Darkroom
from postroom.media.prepare import prepare, prepare_now
from postroom.media.result import MediaFile
from postroom.media.shelves import FolderShelf
from postroom.media.store import MediaStore
from postroom.settings import load
from tests.patience import PATIENCE
from tests.postroom.media.pictures import encoded, exif, flag, noisy, png_header
from tests.postroom.media.test_darkroom import children_of, slow_picture, until

PREPARER = Path(__file__).with_name("preparer.py")


def preparer(store: str, picture: Path, message_id: str) -> "subprocess.Popen[str]":
    """Another process that prepares the picture for a mail."""
    return subprocess.Popen(
        [sys.executable, str(PREPARER), store, str(picture), message_id], stdout=subprocess.PIPE, text=True
    )


def place(store: MediaStore) -> str:
    shelf = store.shelf
    return f"s3://{shelf.bucket}" if isinstance(shelf, BucketShelf) else str(shelf.folder)  # type: ignore[attr-defined]


async def test_the_same_bytes_are_never_developed_twice(store: MediaStore, room: Darkroom) -> None:
    photo = encoded(noisy(), "PNG")
    before = room.children
    first = await prepare([MediaFile("a.png", photo), MediaFile("b.png", photo)], store, message_id="m-1", room=room)
    second = await prepare([MediaFile("c.png", photo)], store, message_id="m-2", room=room)
    assert room.children == before + 1
    assert sorted(result.reused for result in first) == [False, True]
    assert second[0].reused
    assert [result.filename for result in (*first, *second)] == ["a.png", "b.png", "c.png"]
    assert len({result.sha256 for result in (*first, *second)}) == 1


def test_processes_that_get_the_same_picture_at_once_develop_it_once(store: MediaStore, tmp_path: Path) -> None:
    picture = tmp_path / "same.jpg"
    picture.write_bytes(encoded(noisy(700, 500), "JPEG"))
    running = [preparer(place(store), picture, f"m-{n}") for n in range(4)]
    told = [json.loads(process.communicate(timeout=90)[0]) for process in running]
    assert sum(one["children"] for one in told) == 1
    assert len({one["result"]["sha256"] for one in told}) == 1
    assert sorted(one["result"]["reused"] for one in told) == [False, True, True, True]
    for name, size in told[0]["result"]["files"].items():
        data = store.shelf.get(f"{told[0]['result']['sha256']}/{name}")
        assert data is not None
        assert len(data) == size


def test_a_killed_process_leaves_no_child_and_its_retry_finishes(store: MediaStore, tmp_path: Path) -> None:
    picture = tmp_path / "slow.jpg"
    picture.write_bytes(slow_picture(1200))
    busy = preparer(place(store), picture, "m-9")
    family = psutil.Process(busy.pid)
    until(lambda: len(family.children(recursive=True)) >= 2 or busy.poll() is not None, 30)
    offspring = family.children(recursive=True)
    assert len(offspring) >= 2, "the fork server and its child"
    os.kill(busy.pid, signal.SIGKILL)
    busy.communicate(timeout=10)
    until(lambda: not [one for one in offspring if alive(one)])
    assert store.shelf.get("manifests/m-9.json") is None
    assert store.shelf.get("uploads/m-9/1-slow.jpg") is not None

    retried = preparer(place(store), picture, "m-9")
    assert json.loads(retried.communicate(timeout=60)[0])["result"]["error"] is None
    assert store.shelf.get("manifests/m-9.json") is not None


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Interrupted:
    """A shelf that fails once, at the nth write, as a network does."""

    def __init__(self, shelf: FolderShelf, fail_at: int) -> None:
        self.shelf, self.left = shelf, fail_at
        self.get, self.has, self.url = shelf.get, shelf.has, shelf.url

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Unavailable("the store does not answer")

    def put(self, key: str, data: bytes, content_type: str) -> None:
        self._count()
        self.shelf.put(key, data, content_type)

    def put_new(self, key: str, data: bytes, content_type: str) -> bool:
        self._count()
        return self.shelf.put_new(key, data, content_type)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file by its key; of meta.json without the moment it was written."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if path.name == "meta.json":
                data = json.dumps({**json.loads(data), "uploaded": ""}).encode()
            found[path.relative_to(folder).as_posix()] = data
    return found


def test_cut_short_at_any_write_a_retry_leaves_the_same_as_one_go(tmp_path: Path, room: Darkroom) -> None:
    files = [MediaFile("a.png", encoded(flag(), "PNG")), MediaFile("notes.txt", b"hello\n")]
    whole = FolderShelf(tmp_path / "whole")
    prepare_now(files, MediaStore(whole), message_id="m", room=room)
    wanted = snapshot(whole.folder)
    assert len(wanted) == 8
    for fail_at in range(1, len(wanted) + 1):
        shelf = FolderShelf(tmp_path / f"cut-{fail_at}")
        with pytest.raises(Unavailable):
            prepare_now(files, MediaStore(Interrupted(shelf, fail_at)), message_id="m", room=room)
        assert "manifests/m.json" not in snapshot(shelf.folder)
        prepare_now(files, MediaStore(shelf), message_id="m", room=room)
        assert snapshot(shelf.folder) == wanted, fail_at


def test_preparing_the_same_mail_again_changes_nothing(folder: FolderShelf, room: Darkroom) -> None:
    files = [MediaFile("a.png", encoded(flag(), "PNG")), MediaFile("a.pdf", b"%PDF-1.4 x")]
    prepare_now(files, MediaStore(folder), message_id="m", room=room)
    before = snapshot(folder.folder)
    prepare_now(files, MediaStore(folder), message_id="m", room=room)
    assert snapshot(folder.folder) == before


async def test_what_can_not_be_used_is_named_and_the_rest_goes_on(folder: FolderShelf, room: Darkroom) -> None:
    room.develop(encoded(flag(), "PNG"), "png")
    begun = time.monotonic()
    files = [
        MediaFile("bomb.png", png_header(30000, 30000)),
        MediaFile("fine.jpg", encoded(noisy(), "JPEG", exif=exif(6))),
        MediaFile("empty.jpg", b""),
        MediaFile("lie.jpg", b"MZ\x90\0\3\0\0\0" * 50),
        MediaFile("drawing.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>x</script><g/></svg>'),
        MediaFile("film.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"\0" * 64),
        MediaFile("report.pdf", b"%PDF-1.7 something"),
    ]
    results = {r.filename: r for r in await prepare(files, MediaStore(folder), message_id="m", room=room)}
    assert time.monotonic() - begun < 5
    said = results["bomb.png"].warnings
    assert said == ["bomb.png was left out: it is 30000×30000 pixels, more than the 100 megapixels a picture may have"]
    assert results["empty.jpg"].error == "empty.jpg was left out: it is empty"
    assert "named like a picture but is none" in str(results["lie.jpg"].error)
    assert (results["fine.jpg"].width, results["fine.jpg"].height) == (64, 96)
    assert results["drawing.svg"].warnings == ["drawing.svg: taken out of the drawing: <script>"]
    assert results["film.mp4"].kind == "document"
    assert results["film.mp4"].content_type == "video/mp4"
    assert results["report.pdf"].files == {"report.pdf": 18}
    manifest = json.loads((folder.folder / "manifests" / "m.json").read_text())
    assert manifest["bomb.png"] == {"filename": "bomb.png", "sha256": None, "kind": "image", "optimised": False}
    assert b"script" not in (folder.folder / "documents/m/drawing.svg").read_bytes()


async def test_cancelling_kills_the_children(folder: FolderShelf) -> None:
    own = Darkroom(load(media_concurrency=1))
    try:
        work = asyncio.create_task(
            prepare([MediaFile("slow.jpg", slow_picture())], MediaStore(folder), message_id="m", room=own)
        )
        await until_async(lambda: bool(children_of(own)))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await until_async(lambda: not children_of(own))
        assert folder.get("manifests/m.json") is None
    finally:
        own.close()


async def until_async(true: Callable[[], bool], seconds: float = 20) -> None:
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


def test_a_repeated_picture_costs_nearly_nothing(folder: FolderShelf, room: Darkroom) -> None:
    photo = MediaFile("photo.jpg", encoded(noisy(900, 700), "JPEG", quality=92))
    begun = time.perf_counter()
    prepare_now([photo], MediaStore(folder), room=room)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    assert prepare_now([photo], MediaStore(folder), room=room)[0].reused
    assert time.perf_counter() - begun < first / 10


async def test_what_is_too_large_for_a_site_is_left_out_with_the_reason(folder: FolderShelf) -> None:
    room = Darkroom(load(site_file_mb=1, media_concurrency=1))
    try:
        files = [MediaFile("film.mp4", b"\0" * (1024 * 1024 + 1)), MediaFile("note.txt", b"short")]
        film, note = await prepare(files, MediaStore(folder), message_id="m-1", room=room)
    finally:
        room.close()
    assert film.error == "film.mp4 was left out: it is larger than 1 MB, the most that a file of a site may have"
    assert note.used
    assert folder.get("uploads/m-1/1-film.mp4") is not None
