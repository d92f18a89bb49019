"""A private Postgres in a data directory: `python -m workers.postgres --data DIR --port N` becomes the server.

It listens on 127.0.0.1 only and wants the random password that lies beside the cluster (mode 0600).
Commits are durable: fsync and synchronous_commit stay on, so neither a kill -9 nor a power cut loses a
state that Prefect was told is stored. Postgres refuses to run as root; started by root it becomes the
`postgres` or `nobody` user first.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from postroom.errors import Misconfigured, OurFault, PostroomError
from workers import postgres_binaries
from workers.parts import Part, end_with_parent, port_is_free
from workers.postgres_binaries import Binaries

USER = "postroom"
DATABASE = "postgres"
SHELTER = Path("/var/lib/postroom")  # for root, when the data directory is closed to other users
TUNING = {
    "max_connections": "60",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "max_worker_processes": "4",
    "autovacuum_naptime": "30s",
    "jit": "off",  # Prefect's queries are short; compiling them costs more than running them
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}


@dataclass(frozen=True)
class Home:
    """Where one cluster and its password lie, and whom they belong to."""

    data: Path
    folder: Path
    owner: pwd.struct_passwd | None  # None: the user we are already

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    def password(self) -> str:
        """The password; made on first use."""
        file = self.data / "postgres.password"
        self.data.mkdir(parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as fresh:
                fresh.write(secrets.token_urlsafe(24))
        except FileExistsError:
            pass
        return file.read_text().strip()


def home(data: Path) -> Home:
    """The home of the cluster that belongs to a data directory."""
    data = data.resolve()
    if os.geteuid() != 0:
        return Home(data, data / "postgres", None)
    owner = _unprivileged()
    if _can_reach(data):
        return Home(data, data / "postgres", owner)
    # A directory below, say, /root can't be entered by anyone else, and opening it up is not ours to do.
    return Home(data, SHELTER / hashlib.sha256(str(data).encode()).hexdigest()[:16], owner)


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Misconfigured("Postgres does not run as root, and there is neither a user 'postgres' nor 'nobody'")


def _can_reach(path: Path) -> bool:
    """Whether users other than root can enter every directory on the way to the path."""
    return all(not folder.exists() or folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def url(data: Path, port: int) -> str:
    """The SQLAlchemy URL of the database, with its password."""
    return f"postgresql+asyncpg://{USER}:{quote(home(data).password())}@127.0.0.1:{port}/{DATABASE}"


def part(data: Path, port: int) -> Part:
    """How to run the Postgres of a data directory."""
    return Part(
        name="postgres",
        argv=[sys.executable, "-m", "workers.postgres", "--data", str(data.resolve()), "--port", str(port)],
        ready=lambda: answers(port),
        log=data / "logs" / "postgres.log",
        stop_signal=signal.SIGINT,  # Postgres' fast shutdown: it does not wait for clients,
        ready_seconds=180,  # the first start may download the binaries
    )


def answers(port: int) -> bool:
    """Whether a Postgres that has finished starting listens there (it refuses strangers politely)."""
    startup = struct.pack("!i", 196608) + b"user\0" + USER.encode() + b"\0database\0" + DATABASE.encode() + b"\0\0"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as line:
            line.sendall(struct.pack("!i", len(startup) + 4) + startup)
            return line.recv(1) == b"R"  # it asks for the password; "E" would be: still starting
    except OSError:
        return False


def prepare(where: Home, binaries: Binaries) -> None:
    """Makes the cluster if there is none, and clears what a killed server left."""
    where.folder.mkdir(parents=True, exist_ok=True)
    if where.owner:
        os.chown(where.folder, where.owner.pw_uid, where.owner.pw_gid)
    if not (where.cluster / "PG_VERSION").exists():
        _make_cluster(where, binaries)
    _check_version(where, binaries)
    _clear_stale_lock(where)


def _make_cluster(where: Home, binaries: Binaries) -> None:
    fresh, password = where.folder / "cluster.new", where.folder / "password.new"
    shutil.rmtree(fresh, ignore_errors=True)  # an initdb that was cut short
    password.write_text(where.password() + "\n")
    password.chmod(0o600)
    if where.owner:
        os.chown(password, where.owner.pw_uid, where.owner.pw_gid)
    argv = [str(binaries.initdb), "-D", str(fresh), "-U", USER, f"--pwfile={password}", "--auth=scram-sha-256"]
    done = subprocess.run(
        [*argv, "--encoding=UTF8", "--locale=C"],
        env={**os.environ, **binaries.env},
        user=where.owner.pw_uid if where.owner else None,
        group=where.owner.pw_gid if where.owner else None,
        extra_groups=[] if where.owner else None,
        cwd=where.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    password.unlink()
    if done.returncode:
        raise OurFault(f"initdb failed: {(done.stderr or done.stdout).strip()[-1500:]}")
    fresh.rename(where.cluster)


def _check_version(where: Home, binaries: Binaries) -> None:
    have = (where.cluster / "PG_VERSION").read_text().strip()
    if have != binaries.major:
        raise Misconfigured(
            f"{where.cluster} was made by Postgres {have}, but {binaries.postgres} is version {binaries.major}; "
            f"install Postgres {have}, or move the data directory away to begin anew"
        )


def _clear_stale_lock(where: Home) -> None:
    """Removes postmaster.pid unless its process is a Postgres of this cluster (then: says so).

    Postgres does this itself except when the old number now belongs to another process, which is
    usual in a container that was started again.
    """
    lock = where.cluster / "postmaster.pid"
    if not lock.exists():
        return
    first = lock.read_text().partition("\n")[0].strip()
    if first.lstrip("-").isdigit() and _is_postgres(abs(int(first)), where.cluster):
        raise Misconfigured(f"a Postgres (process {first}) is already running on {where.cluster}")
    lock.unlink()


def _is_postgres(process: int, cluster: Path) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        line = subprocess.run(
            ["ps", "-o", "args=", "-p", str(process)], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except FileNotFoundError:  # no ps: the kernel knows as well
        arguments = Path(f"/proc/{process}/cmdline")
        line = arguments.read_bytes().replace(b"\0", b" ").decode(errors="replace") if arguments.exists() else ""
    return "postgres" in line and str(cluster) in line


def become(where: Home, binaries: Binaries, port: int) -> None:
    """Replaces this process by the server, as the user who owns the cluster."""
    options = {
        **TUNING,
        "port": str(port),
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "on",
        "synchronous_commit": "on",
    }
    argv = [str(binaries.postgres), "-D", str(where.cluster)]
    argv += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    os.chdir(where.folder)
    os.umask(0o077)
    if where.owner:
        os.setgroups([])
        os.setgid(where.owner.pw_gid)
        os.setuid(where.owner.pw_uid)
    end_with_parent()
    os.execve(argv[0], argv, {**os.environ, **binaries.env})  # noqa: S606 - an argument list needs no shell


def _old_backends_gone(port: int, seconds: float = 20) -> None:
    """Waits for what a killed server left: its children notice within a moment and let go of the port."""
    deadline = time.monotonic() + seconds
    while not port_is_free(port):
        if time.monotonic() > deadline:
            raise Misconfigured(f"port {port} of 127.0.0.1 is taken by another program")
        time.sleep(0.1)


def main() -> None:
    arguments = argparse.ArgumentParser(description="Run the Postgres of a data directory.")
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--port", type=int, required=True)
    told = arguments.parse_args()
    os.umask(0o022)  # what npm installs must be readable for the user the server runs as
    where = home(told.data)
    binaries = postgres_binaries.find(where.folder.parent if where.owner else where.data)
    prepare(where, binaries)
    _old_backends_gone(told.port)
    become(where, binaries, told.port)


if __name__ == "__main__":
    try:
        main()
    except PostroomError as error:
        sys.exit(f"postgres: {error}")
