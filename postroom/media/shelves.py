"""Where media can lie: anything that holds bytes under a key."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from postroom.errors import BadInput, Unavailable

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE})


class Shelf(Protocol):
    """Bytes under keys. `put_new` never overwrites: the first one to come wins."""

    def get(self, key: str) -> bytes | None: ...

    def has(self, key: str) -> bool: ...

    def put(self, key: str, data: bytes, content_type: str) -> None: ...

    def put_new(self, key: str, data: bytes, content_type: str) -> bool: ...

    def url(self, key: str, *, seconds: int) -> str: ...


class FolderShelf:
    """A folder as a shelf: for the command line and for work without any service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def get(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has(self, key: str) -> bool:
        return self._path(key).is_file()

    def put(self, key: str, data: bytes, content_type: str) -> None:
        with self._writing(key, data) as temporary:
            temporary.replace(self._path(key))

    def put_new(self, key: str, data: bytes, content_type: str) -> bool:
        with self._writing(key, data) as temporary:
            try:
                os.link(temporary, self._path(key))  # fails where a rename would overwrite
            except FileExistsError:
                return False
        return True

    def url(self, key: str, *, seconds: int) -> str:
        return self._path(key).as_uri()

    def _path(self, key: str) -> Path:
        path = (self.folder / key).resolve()
        if not path.is_relative_to(self.folder):
            raise BadInput(f"the key {key!r} leads out of the folder")
        return path

    @contextmanager
    def _writing(self, key: str, data: bytes) -> Iterator[Path]:
        """A complete file beside its place, so that nobody ever sees half of one."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
            temporary = Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                temporary.chmod(0o644)
                yield temporary
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            said = f"{key} can't be written into {self.folder}: {error.strerror}"
            raise (Unavailable if error.errno in _PASSING else BadInput)(said) from error
