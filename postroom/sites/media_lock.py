"""Which pictures and documents of mails a site uses: kept in a bucket, named in a file that git has.

Large files don't belong in git, and links that expire don't belong in pages. So git has only
`mail-media.lock.json` (path → hash and bucket key), and every build fetches the rest again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postroom.errors import BadInput, Missing

LOCK = "mail-media.lock.json"
MEDIA = "src/assets/mail"
Fetch = Callable[[str], bytes]
_PATH = re.compile(rf"{MEDIA}/[A-Za-z0-9][A-Za-z0-9._@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._@+-]*)*")
# What a document is called on the site follows from what it is: a browser that is told `.html` runs what is in it.
_ENDINGS = {
    "application/gzip": "gz",
    "application/json": "json",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/zip": "zip",
    "image/svg+xml": "svg",  # cleaned
    "text/calendar": "ics",
    "text/csv": "csv",
    "text/markdown": "md",
}
_ACTIVE = re.compile(r"s?html?|xht(?:ml)?|xml|xsl|xslt|rss|atom|svgz?|[mc]?js|css|wasm|map|webmanifest|php|manifest")
_SHA = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class MediaFile:
    """One file of the lock: where it lies in the site, its hash, and its key in the media bucket."""

    path: str
    key: str
    sha256: str | None = None  # None until it was fetched once

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path) or ".." in self.path:
            raise BadInput(f"{self.path!r} can't be the path of a mail's file: {MEDIA}/… of plain characters")
        if not self.key or len(self.key) > 1024:
            raise BadInput(f"{self.path}: {self.key!r} can't be a key of the media bucket")
        if self.sha256 is not None and not _SHA.fullmatch(self.sha256):
            raise BadInput(f"{self.path}: {self.sha256!r} is not a sha256")


def parse(text: bytes) -> dict[str, MediaFile]:
    """The lock's files by path; raises BadInput."""
    try:
        document = json.loads(text)
        return {path: MediaFile(path, entry["key"], entry["sha256"]) for path, entry in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{LOCK} can't be read: {error}") from None


def render(files: Mapping[str, MediaFile]) -> bytes:
    """The lock as it stands in git."""
    listed = {path: {"sha256": file.sha256, "key": file.key} for path, file in sorted(files.items())}
    return (json.dumps({"version": 1, "files": listed}, indent=2) + "\n").encode()


def _obtain(file: MediaFile, fetch: Fetch, cache: Path | None) -> bytes:
    kept = cache / file.sha256 if cache is not None and file.sha256 else None
    if kept is not None and kept.is_file():
        content = kept.read_bytes()
        if hashlib.sha256(content).hexdigest() == file.sha256:
            return content
    content = fetch(file.key)
    found = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and found != file.sha256:
        raise Missing(f"{file.path}: the media bucket's {file.key} is not the file it was")
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        part = cache / f".{found}.{os.getpid()}.{os.urandom(4).hex()}"
        part.write_bytes(content)
        part.rename(cache / found)
    return content


def lay(files: Iterable[MediaFile], directory: Path, fetch: Fetch, *, cache: Path | None = None) -> list[MediaFile]:
    """Write the files into a directory of ours; returns them with their hashes."""
    laid = []
    for file in files:
        content = _obtain(file, fetch, cache)
        target = directory / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        laid.append(MediaFile(file.path, file.key, hashlib.sha256(content).hexdigest()))
    return laid


def for_media(medium: Mapping[str, Any]) -> list[MediaFile]:
    """The files of the lock that one media result becomes: `apples-1a2b3c4d.avif` and `.jpg`, or the document.

    An animation comes alone: browsers that know AVIF would show the still picture instead.
    """
    sha256, filename = str(medium.get("sha256") or ""), str(medium["filename"])
    if not _SHA.fullmatch(sha256):
        raise BadInput(f"{filename} has no hash: it was left out")
    stem, _, ending = filename.rpartition(".")
    name = f"{MEDIA}/{_plain(stem or ending)[:60].strip('-') or 'file'}-{sha256[:8]}"
    if medium["kind"] == "image":
        moving = [part for part in medium["files"] if part.startswith("animation.")]
        still = [part for part in ("master.avif", "master.jpg", "master.png") if part in medium["files"]]
        return [MediaFile(f"{name}.{part.rpartition('.')[2]}", f"{sha256}/{part}") for part in moving or still]
    kind = _ending(str(medium.get("content_type") or ""), _plain(ending)[:10] if stem else "")
    key = str(medium.get("key") or f"{sha256}/{filename}")
    return [MediaFile(f"{name}.{kind}" if kind else name, key, sha256)]


def _ending(content_type: str, told: str) -> str:
    """The ending of a document: by its content; by the sender's word only where no browser acts on it."""
    if content_type in _ENDINGS:
        return _ENDINGS[content_type]
    if content_type.startswith("text/"):
        return "txt"
    return "bin" if _ACTIVE.fullmatch(told) else told


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters).strip("-")
