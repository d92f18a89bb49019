"""Media lies where the layout says, once, and links to it are made when asked for."""

import json
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest

from postroom.errors import BadInput, Missing
from postroom.media.bucket import BucketShelf
from postroom.media.darkroom import Darkroom
from postroom.media.prepare import prepare_now
from postroom.media.result import MediaFile
from postroom.media.shelves import FolderShelf, Shelf
from postroom.media.store import MediaStore
from tests.postroom.media.pictures import encoded, flag, noisy

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def stored(shelf: Shelf, key: str) -> bytes:
    data = shelf.get(key)
    assert data is not None, key
    return data


def test_a_mail_leaves_everything_where_the_layout_says(store: MediaStore, room: Darkroom) -> None:
    photo = MediaFile("photo.png", encoded(noisy(), "PNG"), "Ferien / Photo.png")
    paper = MediaFile("menu.pdf", PDF)
    picture, document = prepare_now([photo, paper], store, message_id="m-1", room=room)
    shelf = store.shelf

    assert stored(shelf, "uploads/m-1/1-photo.png") == photo.data
    assert stored(shelf, "uploads/m-1/2-menu.pdf") == PDF
    for name, size in picture.files.items():
        assert len(stored(shelf, f"{picture.sha256}/{name}")) == size
    assert stored(shelf, "documents/m-1/menu.pdf") == PDF
    meta = json.loads(stored(shelf, f"{picture.sha256}/meta.json"))
    assert meta["original_name"] == "Ferien / Photo.png"
    assert (meta["message_id"], meta["content_type"], meta["profile"]) == ("m-1", "image/png", "balanced")
    assert meta["size"] == len(photo.data)
    assert meta["pixels"] == {"width": 96, "height": 64}
    assert json.loads(stored(shelf, f"sources/{picture.source_sha256}.json"))["sha256"] == picture.sha256
    assert json.loads(stored(shelf, "manifests/m-1.json")) == {
        "Ferien / Photo.png": {
            "filename": "photo.png",
            "sha256": picture.sha256,
            "kind": "image",
            "optimised": True,
        },
        "menu.pdf": {"filename": "menu.pdf", "sha256": document.sha256, "kind": "document", "optimised": False},
    }


def test_the_first_writer_of_a_key_wins(shelf: Shelf) -> None:
    assert shelf.put_new("a/b", b"first", "text/plain")
    assert not shelf.put_new("a/b", b"second", "text/plain")
    assert shelf.get("a/b") == b"first"
    assert shelf.has("a/b")
    assert not shelf.has("a/c")
    assert shelf.get("a/c") is None


def test_presigned_links_open_the_masters_and_are_stored_nowhere(bucket: BucketShelf, room: Darkroom) -> None:
    store = MediaStore(bucket)
    files = [MediaFile("photo.png", encoded(noisy(), "PNG")), MediaFile("menu.pdf", PDF)]
    picture, paper = (
        store.links(result, hours=72) for result in prepare_now(files, store, message_id="m-2", room=room)
    )
    assert picture.avif_url
    assert picture.fallback_url
    assert paper.document_url
    for url, key in (
        (picture.avif_url, f"{picture.sha256}/master.avif"),
        (picture.fallback_url, f"{picture.sha256}/master.jpg"),
        (paper.document_url, "documents/m-2/menu.pdf"),
    ):
        asked = parse_qs(urlsplit(url).query)
        assert asked["X-Amz-Expires"] == ["259200"]
        assert asked["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
        assert httpx.get(url).content == bucket.get(key)
    listed = bucket.s3.list_objects_v2(Bucket=bucket.bucket)["Contents"]
    assert not [item["Key"] for item in listed if b"X-Amz-" in stored(bucket, item["Key"])]


def test_objects_carry_the_type_a_browser_needs(bucket: BucketShelf, room: Darkroom) -> None:
    (picture,) = prepare_now([MediaFile("p.png", encoded(noisy(), "PNG"))], MediaStore(bucket), room=room)
    types = {
        name: bucket.s3.head_object(Bucket=bucket.bucket, Key=f"{picture.sha256}/{name}")["ContentType"]
        for name in ("master.avif", "master.jpg", "meta.json")
    }
    assert types == {"master.avif": "image/avif", "master.jpg": "image/jpeg", "meta.json": "application/json"}


def test_a_document_a_page_refers_to_is_kept_under_its_hash(store: MediaStore, room: Darkroom) -> None:
    (paper,) = prepare_now([MediaFile("menu.pdf", PDF)], store, message_id="m-3", room=room)
    assert store.refer_to(paper, PDF) == f"{paper.sha256}/menu.pdf"
    assert stored(store.shelf, f"{paper.sha256}/menu.pdf") == PDF
    with pytest.raises(BadInput, match="not those"):
        store.refer_to(paper, PDF + b"x")


@pytest.mark.parametrize("hostile", ["../m", "a/b", "", "m\n"])
def test_a_message_id_that_could_leave_its_folder_is_refused(folder: FolderShelf, room: Darkroom, hostile: str) -> None:
    with pytest.raises(BadInput, match="message id"):
        prepare_now([MediaFile("menu.pdf", PDF)], MediaStore(folder), message_id=hostile, room=room)


@pytest.mark.parametrize("odd", ["..", ".hidden", "my mail.eml"])
def test_a_message_with_an_odd_id_has_a_folder_of_its_own(folder: FolderShelf, room: Darkroom, odd: str) -> None:
    prepare_now([MediaFile("menu.pdf", PDF)], MediaStore(folder), message_id=odd, room=room)
    (name,) = [path.name for path in (folder.folder / "documents").iterdir()]
    assert not name.startswith(".")
    assert unquote(name) == odd


@pytest.mark.parametrize("hostile", ["../../up.pdf", "..", "a/b.pdf", "nul\0.pdf"])
def test_a_hostile_name_stays_in_its_folder(folder: FolderShelf, room: Darkroom, hostile: str) -> None:
    prepare_now([MediaFile(hostile, PDF)], MediaStore(folder), message_id="m-4", room=room)
    found = {path.parent.relative_to(folder.folder).as_posix() for path in folder.folder.rglob("*") if path.is_file()}
    assert found == {"uploads/m-4", "documents/m-4", "manifests"}
    assert {path.name for path in folder.folder.parent.iterdir()} == {"media"}


def test_masters_that_were_lost_are_made_again(store: MediaStore, room: Darkroom) -> None:
    photo = MediaFile("photo.png", encoded(flag(), "PNG"))
    (first,) = prepare_now([photo], store, room=room)
    index = json.loads(stored(store.shelf, f"sources/{first.source_sha256}.json"))
    store.shelf.put(
        f"sources/{first.source_sha256}.json",
        json.dumps({**index, "files": {**index["files"], "master.gone": 1}}).encode(),
        "application/json",
    )
    (again,) = prepare_now([photo], store, room=room)
    assert not again.reused
    assert prepare_now([photo], store, room=room)[0].reused


def test_an_index_nobody_can_read_counts_as_none(store: MediaStore, room: Darkroom) -> None:
    photo = MediaFile("photo.png", encoded(flag(), "PNG"))
    (first,) = prepare_now([photo], store, room=room)
    store.shelf.put(f"sources/{first.source_sha256}.json", b"{not json", "application/json")
    (again,) = prepare_now([photo], store, room=room)
    assert again.sha256 == first.sha256
    assert not again.reused


def test_a_bucket_that_is_not_there_fails_and_says_so(local_aws: str, room: Darkroom) -> None:
    from postroom.aws.clients import client

    nowhere = MediaStore(BucketShelf(client("s3"), "media-source.nowhere.example.com"))
    with pytest.raises(Missing, match="NoSuchBucket"):
        prepare_now([MediaFile("menu.pdf", PDF)], nowhere, message_id="m-5", room=room)


def test_a_folder_that_can_not_be_written_to_is_named(tmp_path: object, room: Darkroom) -> None:
    from pathlib import Path

    taken = Path(str(tmp_path), "file")
    taken.write_text("in the way")
    with pytest.raises(BadInput, match="can't be written into"):
        prepare_now([MediaFile("menu.pdf", PDF)], MediaStore(FolderShelf(taken)), room=room)
