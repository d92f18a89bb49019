"""What comes in and what comes out of the media room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class MediaFile:
    """An attachment: its safe name (unique within its mail), its bytes, the name the sender gave it."""

    filename: str
    data: bytes
    original_filename: str | None = None


class MediaResult(BaseModel):
    """What became of one file. `error` says why it was left out; then there are no files."""

    model_config = ConfigDict(frozen=True)

    filename: str
    sha256: str | None = None  # of master.avif for a picture, of the bytes for a document
    source_sha256: str
    kind: Literal["image", "document"]
    width: int | None = None
    height: int | None = None
    fallback_type: str | None = None
    files: dict[str, int] = {}
    key: str | None = None  # where a document lies; the files of a picture lie under its hash
    content_type: str
    animated: bool = False
    reused: bool = False
    warnings: list[str] = []
    error: str | None = None
    avif_url: str | None = None
    fallback_url: str | None = None
    document_url: str | None = None

    @property
    def used(self) -> bool:
        return self.error is None

    def as_json(self) -> dict[str, Any]:
        """The object of the contract; a key, links and an error only where there are any."""
        always = set(type(self).model_fields) - {"key", "error", "avif_url", "fallback_url", "document_url"}
        return {k: v for k, v in self.model_dump().items() if k in always or v is not None}
