import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.aws.clients import client
from postroom.media.bucket import BucketShelf
from postroom.media.darkroom import Darkroom
from postroom.media.shelves import FolderShelf, Shelf
from postroom.media.store import MediaStore
from postroom.settings import load


@pytest.fixture(scope="session")
def room() -> Iterator[Darkroom]:
    """A darkroom for all tests of this room, with the limits of a small machine."""
    made = Darkroom(load(media_seconds=30, media_concurrency=2))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> FolderShelf:
    return FolderShelf(tmp_path / "media")


@pytest.fixture
def bucket(local_aws: str) -> BucketShelf:
    """A media bucket of this test alone, in the local AWS."""
    name = f"media-source.{uuid.uuid4().hex[:12]}.example.com"
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return BucketShelf(client("s3"), name)


@pytest.fixture(params=["folder", "bucket"])
def shelf(request: pytest.FixtureRequest) -> Shelf:
    """Each kind of shelf in turn."""
    found: Shelf = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def store(shelf: Shelf) -> MediaStore:
    return MediaStore(shelf)
