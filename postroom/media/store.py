"""Where media lies, and that the same bytes are never worked on twice.

    uploads/{message_id}/{n}-{filename}     as received
    {sha256 of master.avif}/master.avif     and master.jpg or master.png, animation.*, meta.json
    {sha256 of the document}/{filename}     a document a page refers to, for good
    documents/{message_id}/{filename}       every document of a mail, for a while
    manifests/{message_id}.json             what a mail brought: original name → sha256, kind, optimised
    sources/{sha256 of the source}.json     index, written last: what it names is complete

Everything under a hash is put only if it is not there: concurrent writers write the same or nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from postroom import message_ids
from postroom.errors import BadInput
from postroom.media.result import MediaFile, MediaResult
from postroom.media.shelves import Shelf

CONTENT_TYPES = {
    "avif": "image/avif",
    "jpg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
}
_JSON = "application/json"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\]")


class MediaStore:
    """The media of one site on a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def find(self, source_sha256: str) -> MediaResult | None:
        """What these bytes became earlier, if all of it is still there."""
        stored = self.shelf.get(f"sources/{source_sha256}.json")
        if stored is None:
            return None
        try:
            known = MediaResult.model_validate_json(stored)
        except ValidationError:
            return None  # an index nobody can read is as good as none
        if not known.sha256 or not all(self.shelf.has(f"{known.sha256}/{name}") for name in known.files):
            return None
        return known

    def keep_upload(self, message_id: str, number: int, file: MediaFile, content_type: str) -> str:
        """The attachment as received; gives its key."""
        key = f"uploads/{_message(message_id)}/{number}-{_name(file.filename)}"
        self.shelf.put_new(key, file.data, content_type)
        return key

    def keep_picture(
        self, result: MediaResult, parts: Mapping[str, bytes], file: MediaFile, *, profile: str, message_id: str | None
    ) -> None:
        """The masters of a picture under their hash, then what is known of it, then the index."""
        for name, data in parts.items():
            self.shelf.put_new(f"{result.sha256}/{name}", data, CONTENT_TYPES[name.rpartition(".")[2]])
        self._put_json(f"{result.sha256}/meta.json", _meta(result, file, profile, message_id), new=True)
        self._index(result)

    def keep_document(self, result: MediaResult, data: bytes, *, message_id: str | None) -> str:
        """A document of a mail, for a while; without a mail (or once a page refers to it) for good. Gives its key."""
        if message_id is None:
            return self.refer_to(result, data)
        key = f"documents/{_message(message_id)}/{_name(result.filename)}"
        self.shelf.put(key, data, result.content_type)
        return key

    def refer_to(self, result: MediaResult, data: bytes) -> str:
        """Keep a document under its hash for good, because a page refers to it; gives its key."""
        if hashlib.sha256(data).hexdigest() != result.sha256:
            raise BadInput(f"the bytes given for {result.filename} are not those of the document")
        key = f"{result.sha256}/{_name(result.filename)}"
        self.shelf.put_new(key, data, result.content_type)
        return key

    def write_manifest(self, message_id: str, files: Sequence[MediaFile], results: Sequence[MediaResult]) -> None:
        """What a mail brought, by the names its sender gave."""
        manifest: dict[str, Any] = {}
        for file, result in zip(files, results, strict=True):
            name = wanted = file.original_filename or file.filename
            number = 1
            while name in manifest:
                number += 1
                name = f"{wanted} ({number})"
            manifest[name] = {
                "filename": result.filename,
                "sha256": result.sha256,
                "kind": result.kind,
                "optimised": result.used and result.kind == "image",
            }
        self._put_json(f"manifests/{_message(message_id)}.json", manifest)

    def links(self, result: MediaResult, *, hours: int) -> MediaResult:
        """The result with fresh presigned links; they are for handing on, not for keeping."""
        if not result.used:
            return result
        if result.kind == "document":
            key = result.key or f"{result.sha256}/{_name(result.filename)}"
            return result.model_copy(update={"document_url": self.shelf.url(key, seconds=hours * 3600)})
        fallback = "master.png" if result.fallback_type == "image/png" else "master.jpg"
        made = {
            field: self.shelf.url(f"{result.sha256}/{name}", seconds=hours * 3600)
            for field, name in (("avif_url", "master.avif"), ("fallback_url", fallback))
        }
        return result.model_copy(update=made)

    def _index(self, result: MediaResult) -> None:
        self._put_json(f"sources/{result.source_sha256}.json", result.model_dump(exclude_none=True))

    def _put_json(self, key: str, value: Mapping[str, Any], *, new: bool = False) -> None:
        text = json.dumps(value, ensure_ascii=False, indent=1).encode()
        (self.shelf.put_new if new else self.shelf.put)(key, text, _JSON)


def _meta(result: MediaResult, file: MediaFile, profile: str, message_id: str | None) -> dict[str, Any]:
    return {
        "original_name": file.original_filename or file.filename,
        "message_id": message_id,
        "uploaded": datetime.now(UTC).isoformat(timespec="seconds"),
        "content_type": result.content_type,
        "size": len(file.data),
        "pixels": {"width": result.width, "height": result.height},
        "profile": profile,
        "source_sha256": result.source_sha256,
        "files": result.files,
    }


def _message(message_id: str) -> str:
    if not message_ids.fits(message_id):
        raise BadInput(f"{message_id[:200]!r} can't be part of a key: a message id is {message_ids.WANTED}")
    return message_ids.plain(message_id)


def _name(filename: str) -> str:
    """The name as a part of a key: no path, no control characters, never empty or a dot."""
    name = _UNSAFE.sub("_", filename).strip(". ")[-200:]
    return name or "unnamed"
