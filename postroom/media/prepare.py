"""Files in, web media out: each one recognised, developed if it is new, stored, and reported.

A file that can't be used never fails the others: its result says why it was left out.
A store that can't be reached does fail, after all were tried: that is for a retry, not for the sender.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import Future

from postroom.errors import sanitise
from postroom.media.darkroom import Batch, Darkroom, NotDeveloped, darkroom
from postroom.media.kinds import UNKNOWN, Kind, named_like_a_picture, recognise
from postroom.media.result import MediaFile, MediaResult
from postroom.media.store import MediaStore
from postroom.media.turns import turn


async def prepare(
    files: Sequence[MediaFile], store: MediaStore, *, message_id: str | None = None, room: Darkroom | None = None
) -> list[MediaResult]:
    """One result per file, in order. Cancelling it kills the children that still work for it."""
    batch = Batch()
    futures = _begin(files, store, message_id, room or darkroom(), batch)
    try:
        done = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
    except asyncio.CancelledError:
        batch.cancel()
        raise
    results = _all_or_raise(done)
    if message_id is not None:
        await asyncio.to_thread(store.write_manifest, message_id, files, results)
    return results


def prepare_now(
    files: Sequence[MediaFile], store: MediaStore, *, message_id: str | None = None, room: Darkroom | None = None
) -> list[MediaResult]:
    """The same for callers without an event loop."""
    batch = Batch()
    futures = _begin(files, store, message_id, room or darkroom(), batch)
    try:
        results = _all_or_raise([future.exception() or future.result() for future in futures])
    except KeyboardInterrupt:
        batch.cancel()
        raise
    if message_id is not None:
        store.write_manifest(message_id, files, results)
    return results


def _begin(
    files: Sequence[MediaFile], store: MediaStore, message_id: str | None, room: Darkroom, batch: Batch
) -> list[Future[MediaResult]]:
    def work(number: int, file: MediaFile) -> MediaResult:
        batch.check()
        return _Preparing(store, room, batch, message_id).one(number, file)

    return [room.submit(lambda n=n, f=f: work(n, f)) for n, f in enumerate(files, 1)]  # type: ignore[misc]


def _all_or_raise(done: Sequence[MediaResult | BaseException]) -> list[MediaResult]:
    for item in done:
        if isinstance(item, BaseException):
            raise item
    return [item for item in done if isinstance(item, MediaResult)]


class _Preparing:
    def __init__(self, store: MediaStore, room: Darkroom, batch: Batch, message_id: str | None) -> None:
        self.store, self.room, self.batch, self.message_id = store, room, batch, message_id

    def one(self, number: int, file: MediaFile) -> MediaResult:
        kind = recognise(file.data, file.filename)
        source = hashlib.sha256(file.data).hexdigest()
        plain = MediaResult(
            filename=file.filename,
            source_sha256=source,
            kind="document" if kind.format in (None, "svg") else "image",
            content_type=kind.content_type,
        )
        if self.message_id is not None:
            self.store.keep_upload(self.message_id, number, file, kind.content_type)
        if not file.data:
            return _left_out(plain, "it is empty")
        try:
            if kind.format is None:
                return self._document(plain, file.data, _warnings(file, kind))
            if kind.format == "svg":
                made = self.room.develop(file.data, "svg", self.batch)
                return self._document(plain, made.parts["document"], made.warnings)
            return self._known(plain) or self._picture(plain, file, kind.format)
        except NotDeveloped as why:
            if self.batch.cancelled:
                raise
            return _left_out(plain, sanitise(str(why)))

    def _document(self, plain: MediaResult, data: bytes, warnings: list[str]) -> MediaResult:
        self._fits(len(data))
        result = plain.model_copy(
            update={
                "sha256": hashlib.sha256(data).hexdigest(),
                "files": {plain.filename: len(data)},
                "warnings": [f"{plain.filename}: {text}" for text in warnings],
            }
        )
        key = self.store.keep_document(result, data, message_id=self.message_id)
        return result.model_copy(update={"key": key})

    def _known(self, plain: MediaResult) -> MediaResult | None:
        """The result of the same bytes seen earlier, under the name they have now."""
        known = self.store.find(plain.source_sha256)
        if known is None:
            return None
        mine = [text.replace(known.filename, plain.filename, 1) for text in known.warnings]
        return known.model_copy(update={"filename": plain.filename, "reused": True, "warnings": mine})

    def _picture(self, plain: MediaResult, file: MediaFile, form: str) -> MediaResult:
        with turn(plain.source_sha256, self.batch.check):
            # another may have finished it while we waited
            return self._known(plain) or self._new_picture(plain, file, form)

    def _new_picture(self, plain: MediaResult, file: MediaFile, form: str) -> MediaResult:
        made = self.room.develop(file.data, form, self.batch)
        self._fits(max(map(len, made.parts.values())))
        result = plain.model_copy(
            update={
                "sha256": hashlib.sha256(made.parts["master.avif"]).hexdigest(),
                "width": made.width,
                "height": made.height,
                "fallback_type": made.fallback_type,
                "files": {name: len(data) for name, data in made.parts.items()},
                "animated": made.animated,
                "warnings": [f"{plain.filename}: {text}" for text in made.warnings],
            }
        )
        profile = self.room.settings.media_profile
        self.store.keep_picture(result, made.parts, file, profile=profile, message_id=self.message_id)
        return result

    def _fits(self, size: int) -> None:
        """Raise NotDeveloped for what no site can hold: it would fail the whole edit later."""
        most = self.room.settings.site_file_mb
        if size > most * 1024 * 1024:
            raise NotDeveloped(f"it is larger than {most} MB, the most that a file of a site may have")


def _warnings(file: MediaFile, kind: Kind) -> list[str]:
    """A file named like a picture that is none: worth a word when it is something else, refused when it is nothing."""
    if not named_like_a_picture(file.filename):
        return []
    if kind.content_type == UNKNOWN or kind.content_type.startswith("text/"):
        raise NotDeveloped(f"it is named like a picture but is none ({kind.content_type})")
    return [f"it is named like a picture but is {kind.content_type}; kept as a document"]


def _left_out(plain: MediaResult, why: str) -> MediaResult:
    said = f"{plain.filename} was left out: {why}"
    return plain.model_copy(update={"error": said, "warnings": [said]})
