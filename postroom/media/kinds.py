"""What a file is, by its first bytes; the sender's word and the name come last."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Format = Literal["jpeg", "png", "gif", "webp", "heif", "avif", "tiff", "bmp", "svg"]

PICTURE_TYPES: dict[str, str] = {
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "heif": "image/heic",
    "avif": "image/avif",
    "tiff": "image/tiff",
    "bmp": "image/bmp",
    "svg": "image/svg+xml",
}
PICTURE_NAMES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".png", ".gif", ".webp", ".heic", ".heif", ".avif", ".tif", ".tiff", ".bmp", ".svg"}
)
# camera raw files begin like a TIFF, but hold only a small preview that a TIFF reader understands
_CAMERA_RAW = frozenset({".dng", ".cr2", ".nef", ".nrw", ".arw", ".srw", ".pef", ".3fr", ".erf", ".iiq", ".raw"})
_HEVC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"mif2", b"msf1"})
_AV1_BRANDS = frozenset({b"avif", b"avis"})
# nothing is tried in a second way: what comes before the drawing can be read in one way only
_SVG = re.compile(r"\A(?><\?[^>]*\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>|\s+)*+<(?:[\w.-]+:)?svg[\s>/]", re.S)
_ZIPPED_OFFICE = {
    b"word/": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    b"xl/": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    b"ppt/": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "application/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"{\\rtf", "application/rtf"),
    (b"\x00\x00\x00\x0cJXL ", "image/jxl"),
    (b"\xff\x0a", "image/jxl"),
    (b"\x00\x00\x00\x0cjP  ", "image/jp2"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
)
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
UNKNOWN = "application/octet-stream"


@dataclass(frozen=True)
class Kind:
    """What the bytes are: the content type, and the picture format if it is one that can be opened."""

    content_type: str
    format: Format | None = None


def recognise(data: bytes, filename: str = "") -> Kind:
    """The kind of a file by its content; the name only tells apart what looks the same inside."""
    suffix = PurePosixPath(filename).suffix.lower()
    if found := _picture(data, suffix):
        content_type = "image/heif" if found == "heif" and data[8:12] in (b"mif1", b"msf1") else PICTURE_TYPES[found]
        return Kind(content_type, found)
    return Kind(_document(data, filename))


def _picture(data: bytes, suffix: str) -> Format | None:
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp":
        size = int.from_bytes(data[:4], "big")
        brands = {data[8:12], *(data[at : at + 4] for at in range(16, min(size, len(data), 256), 4))}
        if brands & _AV1_BRANDS:
            return "avif"
        return "heif" if brands & _HEVC_BRANDS else None
    if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return None if suffix in _CAMERA_RAW or data[8:10] == b"CR" else "tiff"
    if data[:2] == b"BM" and data[6:10] == b"\0\0\0\0" and len(data) > 26:
        return "bmp"
    beginning = as_text(data[:8192])
    return "svg" if beginning and _SVG.match(beginning.lstrip("\ufeff")) else None


def _document(data: bytes, filename: str) -> str:
    for beginning, content_type in _BEGINNINGS:
        if data.startswith(beginning):
            return content_type
    if data[4:8] == b"ftyp":
        return "video/quicktime" if data[8:12] == b"qt  " else "video/mp4"
    if data[:4] == b"RIFF":
        return {b"AVI ": "video/x-msvideo", b"WAVE": "audio/wav"}.get(data[8:12], UNKNOWN)
    named = mimetypes.guess_type(filename)[0]
    if data.startswith(b"PK\x03\x04"):
        for folder, content_type in _ZIPPED_OFFICE.items():
            if folder in data[-65536:] and b"[Content_Types].xml" in data:
                return content_type
        opens = named is not None and ("opendocument" in named or named == "application/epub+zip")
        return named if named and opens else "application/zip"
    if data.startswith(_OLD_OFFICE):
        return named if named and named.startswith("application/") else "application/x-ole-storage"
    if as_text(data[:8192]) is None:
        return UNKNOWN
    # text that a browser would run must not pass as such on the sender's word
    return named if named in {"text/csv", "text/markdown", "text/calendar", "application/json"} else "text/plain"


def as_text(data: bytes) -> str | None:
    """The bytes as text, or None when they are not text."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if error.start < len(data) - 4:  # not just a character cut in two at the end
            text = data.decode("latin-1")
            if any(c < " " and c not in "\t\r\n\f\x1b" for c in text) or sum(c > "~" for c in text) > len(text) // 5:
                return None
            return text
        text = data[: error.start].decode(encoding)
    return None if any(c < " " and c not in "\t\r\n\f\x1b" for c in text) else text


def named_like_a_picture(filename: str) -> bool:
    return PurePosixPath(filename).suffix.lower() in PICTURE_NAMES
