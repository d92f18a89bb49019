"""What an untrusted command gets to see and use, and how that is said to bubblewrap."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from postroom.errors import BadInput

INSIDE = Path(__file__).with_name("inside.py")
_MB = 1024 * 1024
# The parts of /etc that programs need and that tell nothing about this machine's people or secrets.
_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "ssl/certs")


@dataclass(frozen=True)
class Limits:
    """How much a command may use before it is ended."""

    seconds: float = 300
    memory_mb: int = 2048
    processes: int = 200
    output_mb: int = 4
    disk_mb: int = 1024
    file_mb: int = 256


@dataclass(frozen=True)
class Cell:
    """One room for one command: its writable workspace, what else it may read, and its only way out.

    `mount` is where the workspace appears inside; `shown` maps paths inside to files and
    directories outside, all read-only; `scratch` are paths inside that are writable and forgotten.
    """

    workspace: Path
    mount: str = "/work"
    shown: Mapping[str, Path] = field(default_factory=dict)
    scratch: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    allow_tcp: tuple[str, int] | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for path in (self.mount, *self.shown, *self.scratch):
            if not path.startswith("/") or ".." in PurePosixPath(path).parts:
                raise BadInput(f"a path inside a sandbox must be absolute and without '..', not {path!r}")

    def env(self) -> dict[str, str]:
        """The whole environment of the command: nothing of ours is in it."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",  # noqa: S108 - the sandbox's own
            "TMPDIR": "/tmp",  # noqa: S108
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            **self.environment,
        }


def strange_uid() -> int:
    """A user number nobody else has, so that two sandboxes are strangers to each other too."""
    mapped = Path("/proc/self/uid_map").read_text().split()
    if len(mapped) == 3 and int(mapped[2]) == 4294967295:
        return 1_500_000_000 + secrets.randbelow(400_000_000)
    return 60_000 + secrets.randbelow(5_000)  # a container with few user numbers


def spec(cell: Cell, uid: int | None, cwd: str, *, socket: str | None = None, stay: bool = False) -> str:
    """What `inside.py` is told."""
    told: dict[str, Any] = {
        "uid": uid,
        "gid": uid,
        "cwd": cwd,
        "stay": stay,
        "limits": {"memory": cell.limits.memory_mb * _MB, "file": cell.limits.file_mb * _MB},
        "tunnel": None,
    }
    if uid is not None:  # counted per user: only with a user of its own is the number the command's
        told["limits"]["processes"] = cell.limits.processes
    if cell.allow_tcp and socket:
        told["tunnel"] = {"port": cell.allow_tcp[1], "socket": socket}
    return json.dumps(told)


def _python() -> tuple[str, Path | None]:
    """The interpreter that runs `inside.py`, and its home when that is not in /usr."""
    real = Path(sys.executable).resolve()
    home = Path(sys.base_prefix).resolve()
    return str(real), None if home.is_relative_to("/usr") else home


def write_private(cell: Cell, private: Path, uid: int | None) -> None:
    """The few files of /etc that are made for this cell."""
    number = 65534 if uid is None else uid
    (private / "passwd").write_text(f"guest:x:{number}:{number}:guest:/tmp:/bin/false\n")
    (private / "group").write_text(f"guest:x:{number}:\n")
    host = cell.allow_tcp[0] if cell.allow_tcp else "localhost"
    (private / "hosts").write_text("127.0.0.1 localhost\n" + ("" if host[0].isdigit() else f"127.0.0.1 {host}\n"))
    (private / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    for name in ("passwd", "group", "hosts", "nsswitch.conf"):
        (private / name).chmod(0o644)
    (private / "out").mkdir(mode=0o755, exist_ok=True)


class _Mounts:
    """Arguments of bubblewrap, parents first and open to the sandbox's user."""

    def __init__(self) -> None:
        self.args: list[str] = []
        self._made: set[PurePosixPath] = {PurePosixPath("/")}
        self._covered: list[PurePosixPath] = []

    def _parents(self, inside: str) -> None:
        for parent in reversed(PurePosixPath(inside).parents):
            if parent in self._made or any(parent.is_relative_to(done) for done in self._covered):
                continue
            self.args += ["--perms", "0755", "--dir", str(parent)]
            self._made.add(parent)

    def show(self, inside: str, outside: Path, how: str = "--ro-bind") -> None:
        self._parents(inside)
        self.args += [how, str(outside), inside]
        self._covered.append(PurePosixPath(inside))

    def scratch(self, inside: str, size: int) -> None:
        self._parents(inside)
        self.args += ["--perms", "1777", "--size", str(size), "--tmpfs", inside]
        self._covered.append(PurePosixPath(inside))


def bubblewrap(cell: Cell, private: Path, uid: int | None, *, bwrap: str, cwd: str | None = None) -> list[str]:
    """The command line in front of the untrusted command; `uid` None means a user namespace."""
    mounts = _Mounts()
    mounts.show("/usr", Path("/usr"))
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        at = Path("/", name)
        if at.is_symlink():
            mounts.args += ["--symlink", os.readlink(at), str(at)]  # noqa: PTH115 - as it is written
        elif at.is_dir():
            mounts.show(str(at), at)
    for name in _ETC:
        if (at := Path("/etc", name)).exists():
            mounts.show(str(at), at.resolve())
    for name in ("passwd", "group", "hosts", "nsswitch.conf"):
        mounts.show(f"/etc/{name}", private / name)
    mounts.args += ["--proc", "/proc", "--dev", "/dev"]
    mounts.scratch("/tmp", cell.limits.memory_mb * _MB // 2)  # noqa: S108
    mounts.scratch("/dev/shm", cell.limits.memory_mb * _MB // 2)  # noqa: S108
    python, home = _python()
    if home is not None:
        mounts.show(str(home), home)
    mounts.show("/run/cell/inside.py", INSIDE)
    if cell.allow_tcp:
        mounts.show("/run/cell/out", private / "out")
    mounts.show(cell.mount, cell.workspace.resolve(), "--bind")
    for inside, outside in cell.shown.items():
        mounts.show(inside, outside.resolve())
    for inside in cell.scratch:
        mounts.scratch(inside, cell.limits.disk_mb * _MB // 4)
    own = ["--unshare-user", "--uid", "65534", "--gid", "65534"] if uid is None else []
    rights = ["CAP_NET_BIND_SERVICE"] + ([] if uid is None else ["CAP_SETUID", "CAP_SETGID"])
    return [
        bwrap,
        *own,
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--hostname", "cell", "--die-with-parent", "--new-session"),
        *(word for right in rights for word in ("--cap-add", right)),
        *mounts.args,
        *("--remount-ro", "/", "--chdir", "/", "--", python, "-I", "-S", "/run/cell/inside.py"),
        spec(cell, uid, cwd or cell.mount, socket="/run/cell/out/socket"),
    ]
