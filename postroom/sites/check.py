"""May these pages go out? Looks at a built site before anything is deployed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import BuildFailed
from postroom.settings import settings
from postroom.sites.build import Built

_MB = 1024 * 1024
# a file without a suffix may be text too; what a camera or a font file holds is not looked at
_TEXT = {
    "",
    ".html",
    ".htm",
    ".css",
    ".js",
    ".mjs",
    ".json",
    ".xml",
    ".txt",
    ".svg",
    ".map",
    ".webmanifest",
    ".md",
    ".csv",
}
_TEXT |= {".rss", ".atom", ".ics", ".vcf"}
# A presigned link stops working within days and tells a secret until then; the bucket's name is nobody's business.
_LINKS = re.compile(rb"(?i)X-Amz-[A-Za-z]|\.amazonaws\.com\b|[?&]AWSAccessKeyId=")


@dataclass(frozen=True)
class Checked:
    """What a check found: `problems` keep the site from being deployed, `tried` are told to the operator."""

    files: int
    size: int
    problems: tuple[str, ...]
    tried: tuple[str, ...] = ()

    def demand(self) -> None:
        """Raise BuildFailed naming every problem, if there is one."""
        if self.problems:
            raise BuildFailed(f"the built site can't be deployed: {'; '.join(self.problems)}", tried=list(self.tried))


def check(dist: Path, built: Built | None = None) -> Checked:
    """Look at every file of a built site."""
    problems: list[str] = []
    files = size = 0
    largest = settings().site_file_mb * _MB
    for at, directories, names in os.walk(dist, followlinks=False):
        for name in sorted((*names, *directories)):
            path = Path(at, name)
            told = path.relative_to(dist).as_posix()
            if path.is_symlink():
                problems.append(f"{told} is a link")
            elif name in names:
                if not path.is_file():
                    problems.append(f"{told} is not a file")
                    continue
                files += 1
                size += (bytes_ := path.stat().st_size)
                if bytes_ > largest:
                    problems.append(f"{told} has {bytes_ / _MB:.1f} MB, more than {largest // _MB}")
                elif path.suffix.lower() in _TEXT and _LINKS.search(path.read_bytes()):
                    problems.append(f"{told} has a link into a bucket that stops working")
    if files == 0:
        problems.append("it is empty")
    elif not (dist / "index.html").is_file() or (dist / "index.html").stat().st_size == 0:
        problems.append("it has no index.html")
    if size > settings().site_total_mb * _MB:
        problems.append(f"it has {size / _MB:.0f} MB, more than {settings().site_total_mb}")
    if built is not None:
        problems += [f"{path} is a link or a special file" for path in built.odd]
    return Checked(files, size, tuple(problems), built.tried if built is not None else ())
