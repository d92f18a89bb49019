"""Run by tests as a process of its own: STORE PICTURE MESSAGE_ID; says what it got and how many children it took."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from postroom.media.darkroom import darkroom
from postroom.media.prepare import prepare_now
from postroom.media.result import MediaFile
from postroom.media.shelves import FolderShelf, Shelf
from postroom.media.store import MediaStore


def shelf(place: str) -> Shelf:
    if not place.startswith("s3://"):
        return FolderShelf(Path(place))
    from postroom.aws.clients import client
    from postroom.media.bucket import BucketShelf

    return BucketShelf(client("s3"), place.removeprefix("s3://"))


if __name__ == "__main__":
    store, picture, message_id = sys.argv[1:]
    file = MediaFile(Path(picture).name, Path(picture).read_bytes())
    (result,) = prepare_now([file], MediaStore(shelf(store)), message_id=message_id)
    print(json.dumps({"result": result.model_dump(), "children": darkroom().children}))
