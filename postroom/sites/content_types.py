"""What a browser is told of a file: its type, and how long it may be kept."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath

# Said here, not by the machine's own table, so that every machine deploys the same.
_OURS = {
    ".avif": "image/avif",
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".gif": "image/gif",
    ".htm": "text/html; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".ics": "text/calendar; charset=utf-8",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".mp4": "video/mp4",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webm": "video/webm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".xml": "application/xml; charset=utf-8",
}
_OTHERS = mimetypes.MimeTypes(filenames=())
_PAGES = {".html", ".htm", ".xml", ".txt", ".webmanifest"}


def content_type(key: str) -> str:
    """The Content-Type of a file by its name."""
    suffix = PurePosixPath(key).suffix.lower()
    return _OURS.get(suffix) or _OTHERS.types_map[True].get(suffix) or "application/octet-stream"


def cache_control(key: str, page_seconds: int) -> str:
    """How long browsers and caches may keep a file; Astro's hashed names never change their content."""
    if key.startswith("_astro/"):
        return "public, max-age=31536000, immutable"
    return f"public, max-age={page_seconds}"


def is_page(key: str) -> bool:
    """Does it refer to other files, so that they must be there before it?"""
    return PurePosixPath(key).suffix.lower() in _PAGES and not key.startswith("_astro/")
