"""S3: one row per key with its versions, tags and ACLs; the bytes in files that a row refers to."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ministack.core.responses import AccountScopedDict
from ministack.services import s3

from deployments.local_aws.keep.journal import Journal
from deployments.local_aws.keep.request import Request
from deployments.local_aws.keep.stores import Stores, scoped_stores

Key = tuple[str, str, str]  # account, bucket, key
_PER_OBJECT = ("_object_tags", "_object_acl", "_object_annotations", "_object_retention", "_object_legal_hold")
_UPLOADS = ("_multipart_uploads", "_completed_multipart_uploads")
_FILE = "kept_in"  # name of the file with the bytes, in a record whose body is not in memory


class Keys(dict[str, Any]):
    """A bucket's objects; what is put or removed is noticed."""

    def __init__(self, value: dict[str, Any], account: str, bucket: str, touched: set[Key]) -> None:
        super().__init__(value)
        self.account, self.bucket, self.touched = account, bucket, touched

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.touched.add((self.account, self.bucket, key))

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.touched.add((self.account, self.bucket, key))

    def pop(self, key: str, *default: Any) -> Any:
        self.touched.add((self.account, self.bucket, key))
        return super().pop(key, *default)


class NoticedDict(AccountScopedDict):  # type: ignore[misc]
    """Tags and ACLs by (bucket, key, version); a change is a change of the object."""

    __slots__ = ()
    touched: set[Key] = set()  # noqa: RUF012 - slots leave no room for one per instance; there is one S3

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.touched.add((self._prefix(), key[0], key[1]))

    def pop(self, key: Any, *default: Any) -> Any:
        self.touched.add((self._prefix(), key[0], key[1]))
        return super().pop(key, *default)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self.touched.add((self._prefix(), key[0], key[1]))


class Objects:
    service = "s3"

    def __init__(self, journal: Journal, folder: Path) -> None:
        self.journal, self.folder = journal, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.touched = NoticedDict.touched
        self.files: dict[Key, set[str]] = {}
        self.outdated: set[str] = set()
        left_out = ("_object_versions", *_PER_OBJECT, *_UPLOADS)
        self.settings = Stores(journal, "bucket", scoped_stores(s3, left_out), _slim)
        self.uploads = Stores(journal, "upload", {name: vars(s3)[name]._data for name in _UPLOADS}, _without_parts)
        self.parts: set[tuple[Any, int]] = set()

    def restore(self) -> None:
        self.settings.restore()
        for bucket in s3._buckets._data.values():
            bucket["objects"] = {}
        for key, row in self.journal.rows("object"):
            account, bucket, name = key
            home = s3._buckets._data.get((account, bucket))
            if home is None:
                self.journal.drop("object", key)
                continue
            if row["current"] is not None:
                home["objects"][name] = row["current"]
            if row["versions"]:
                s3._object_versions._data[account, (bucket, name)] = row["versions"]
            for store, entries in row["more"].items():
                for version, value in entries.items():
                    vars(s3)[store]._data[account, (bucket, name, version)] = value
            self.files[key] = _files(row)
        self.uploads.restore()
        for (upload, number), part in self.journal.rows("part"):
            if upload in s3._multipart_uploads._data:
                s3._multipart_uploads._data[upload]["parts"][number] = part
                self.parts.add((upload, number))
            else:
                self.journal.drop("part", (upload, number))
        self._sweep()

    def _sweep(self) -> None:
        """Removes files that no row refers to: of puts that were never answered, or replaced since."""
        kept = set().union(*self.files.values())
        for shelf in self.folder.iterdir():
            for file in shelf.iterdir():
                if file.name not in kept:
                    file.unlink()

    def watch(self) -> None:
        self._take_in()
        for name in (*_PER_OBJECT, "_object_versions"):
            vars(s3)[name].__class__ = NoticedDict
        read_body, version_body = s3._read_body, s3._version_body

        def body(bucket: str, key: str, record: dict[str, Any]) -> Any:
            return self._read(record) if _kept(record, "body") else read_body(bucket, key, record)

        def body_of_version(bucket: Any, bucket_name: str, key: str, version: dict[str, Any]) -> Any:
            return self._read(version) if _kept(version, "data") else version_body(bucket, bucket_name, key, version)

        s3._read_body, s3._version_body = body, body_of_version
        s3._fire_s3_event_async = _tell_at_once

    def _take_in(self) -> None:
        for (account, name), bucket in s3._buckets._data.items():
            if not isinstance(bucket["objects"], Keys):
                bucket["objects"] = Keys(bucket["objects"], account, name, self.touched)

    def collect(self, request: Request | None) -> None:
        if request and request.service == "s3" and request.method in ("PUT", "POST", "DELETE"):
            if not request.of_object:
                self._take_in()
                if request.query.split("=")[0] != "delete":
                    self.settings.collect(request.bucket)
            if "upload" in request.query.lower():
                self._collect_upload(request)
        while self.touched:
            self._collect_key(self.touched.pop())

    def tidy(self) -> None:
        """After the commit: the files of replaced and removed objects."""
        while self.outdated:
            self._path(self.outdated.pop()).unlink(missing_ok=True)

    def _collect_key(self, key: Key) -> None:
        account, bucket, name = key
        home = s3._buckets._data.get((account, bucket), {"objects": {}})
        current = home["objects"].get(name)
        versions = s3._object_versions._data.get((account, (bucket, name)), [])
        written: dict[int, str] = {}  # a version and the current object often share their bytes
        if current is not None:
            self._set_aside(current, "body", written)
        for version in versions:
            self._set_aside(version, "data", written)
        ids = {None, "null", *(version["version_id"] for version in versions)}
        more = {
            store: {
                version: value
                for version in ids
                if (value := vars(s3)[store]._data.get((account, (bucket, name, version)))) is not None
            }
            for store in _PER_OBJECT
        }
        row = {"current": current, "versions": versions, "more": more}
        if current is None and not versions:
            self.journal.drop("object", key)
        else:
            self.journal.put("object", key, row)
        files = _files(row)
        self.outdated |= self.files.pop(key, set()) - files
        if files:
            self.files[key] = files

    def _set_aside(self, record: dict[str, Any], name: str, written: dict[int, str]) -> None:
        """Moves the bytes of a record from memory to a file."""
        content = record.get(name)
        if content is None:
            return
        if id(content) not in written:
            file = uuid.uuid4().hex
            path = self._path(file)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            written[id(content)] = file
        record[_FILE] = written[id(content)]
        record[name] = None

    def _collect_upload(self, request: Request) -> None:
        wanted = parse_qs(request.query, keep_blank_values=True).get("uploadId", [""])[0]
        self.uploads.collect(wanted)
        for upload, started in s3._multipart_uploads._data.items():
            for number, part in started["parts"].items():
                if upload[-1] == wanted:
                    self.journal.put("part", (upload, number), part)
                    self.parts.add((upload, number))
        for upload, number in [part for part in self.parts if part[0] not in s3._multipart_uploads._data]:
            self.journal.drop("part", (upload, number))
            self.parts.discard((upload, number))

    def _path(self, file: str) -> Path:
        return self.folder / file[:2] / file

    def _read(self, record: dict[str, Any]) -> bytes:
        return self._path(record[_FILE]).read_bytes()


def _kept(record: dict[str, Any], name: str) -> bool:
    return record.get(name) is None and _FILE in record


def _files(row: dict[str, Any]) -> set[str]:
    return {record[_FILE] for record in (row["current"], *row["versions"]) if record and _FILE in record}


def _tell_at_once(bucket: str, key: str, event: str, *given: Any, **named: Any) -> None:
    """The notification is queued before the answer leaves, not in a thread that may die with the process."""
    if bucket in s3._bucket_notifications:
        s3._fire_s3_event(bucket, key, event, *given, sequencer=s3._next_event_sequencer(event), **named)


def _slim(name: str, value: Any) -> Any:
    return {key: part for key, part in value.items() if key != "objects"} if name == "_buckets" else value


def _without_parts(name: str, value: Any) -> Any:
    return {**value, "parts": {}} if name == "_multipart_uploads" else value
