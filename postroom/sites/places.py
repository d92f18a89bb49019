"""Where a site's things are: its buckets and addresses, and its corner of the data directory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from postroom.aws.names import Names
from postroom.errors import BadInput
from postroom.settings import settings

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class Places:
    """Everything about a site that follows from its project and domain."""

    project: str
    domain: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.project):
            raise BadInput(
                f"project {self.project!r} must be 1-63 characters of a-z, 0-9 and '-', not beginning with '-'"
            )

    @property
    def media_bucket(self) -> str:
        return Names.media_bucket(self.project, self.domain)

    @property
    def edit_bucket(self) -> str:
        return Names.edit_bucket(self.project, self.domain)

    @property
    def production_bucket(self) -> str:
        return Names.production_bucket(self.project, self.domain)

    @property
    def edit_url(self) -> str:
        """Where people see the site before it is published."""
        return _address(self.edit_bucket)

    @property
    def production_url(self) -> str:
        return _address(self.production_bucket)

    def page_url(self, page: str) -> str:
        """Where people see one page (`/news/apples/`) before it is published."""
        root, path = self.edit_url.removesuffix("index.html"), quote(page.lstrip("/"), safe="/~")
        if root == self.edit_url:
            return root + path
        return root + (f"{path}index.html" if path.endswith("/") or not path else path)

    @property
    def repository(self) -> Path:
        """The bare repository on this machine."""
        return settings().data / "sites" / f"{self.project}.git"

    @property
    def packages(self) -> Path:
        """Installed node_modules, one per lock, shared by all sites."""
        return settings().packages or settings().data / "sites" / "packages"

    @property
    def media_cache(self) -> Path:
        """Media files by hash, so that a build fetches each only once."""
        return settings().data / "sites" / "media" / self.project

    def work(self, edit: str) -> Path:
        """A directory for one edit alone, to be removed afterwards."""
        return settings().data / "sites" / "work" / edit.replace(":", "-").replace("/", "-")


def _address(bucket: str) -> str:
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    # the local AWS has no names of its own for buckets, and no index documents
    return f"{endpoint.rstrip('/')}/{bucket}/index.html" if endpoint else f"https://{bucket}/"
