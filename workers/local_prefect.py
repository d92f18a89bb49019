"""The Prefect server of this machine: API, UI and services in one process, on the Postgres beside it.

`python -m workers.local_prefect --data DIR --port N --postgres-port M` becomes the server.
"""

from __future__ import annotations

import argparse
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from postroom.errors import Misconfigured, PostroomError
from workers import postgres
from workers.parts import Part, Running, end_with_parent, port_is_free, start


def api_url(port: int) -> str:
    """Where clients find the API."""
    return f"http://127.0.0.1:{port}/api"


def server_environment(data: Path, port: int, postgres_port: int) -> dict[str, str]:
    """Settings of the server process. Holds the database password: for the server's own environment only."""
    return {
        "PREFECT_HOME": str(data.resolve() / "prefect"),
        "PREFECT_PROFILES_PATH": str(data.resolve() / "prefect" / "profiles.toml"),
        "PREFECT_API_URL": api_url(port),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": postgres.url(data, postgres_port),
        "PREFECT_SERVER_DATABASE_SQLALCHEMY_POOL_SIZE": "15",
        "PREFECT_SERVER_DATABASE_SQLALCHEMY_MAX_OVERFLOW": "20",
        "PREFECT_SERVER_UI_ENABLED": "true",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "DO_NOT_TRACK": "1",
    }


def part(data: Path, port: int, postgres_port: int) -> Part:
    """How to run the Prefect server of a data directory."""
    argv = [sys.executable, "-m", "workers.local_prefect", "--data", str(data.resolve()), "--port", str(port)]
    return Part(
        name="prefect",
        argv=[*argv, "--postgres-port", str(postgres_port)],
        ready=lambda: answers(port),
        log=data / "logs" / "prefect.log",
        ready_seconds=120,  # the first start makes the tables
    )


def answers(port: int) -> bool:
    """Whether the API is there."""
    try:
        with urllib.request.urlopen(f"{api_url(port)}/health", timeout=2) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


class LocalPrefect:
    """Postgres and Prefect server together, for those who need no supervisor."""

    def __init__(self, data: Path, port: int, postgres_port: int) -> None:
        self.parts = (postgres.part(data, postgres_port), part(data, port, postgres_port))
        self.url = api_url(port)
        self._running: list[Running] = []

    def start(self) -> None:
        """Returns when the API answers; leaves nothing running when it can't."""
        try:
            for each in self.parts:
                self._running.append(start(each))
        except BaseException:
            self.stop()
            raise

    def ready(self) -> bool:
        """Whether both answer."""
        return all(each.ready() for each in self.parts)

    def stop(self) -> None:
        """Ends the server first, then its database."""
        while self._running:
            self._running.pop().stop()

    def __enter__(self) -> LocalPrefect:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description="Run the Prefect server of a data directory.")
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--postgres-port", type=int, required=True)
    told = arguments.parse_args()
    if not port_is_free(told.port):
        raise Misconfigured(f"port {told.port} of 127.0.0.1 is taken by another program")
    environment = {**os.environ, **server_environment(told.data, told.port, told.postgres_port)}
    Path(environment["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True, mode=0o700)
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(told.port)]
    end_with_parent()
    os.execve(argv[0], argv, environment)  # noqa: S606 - an argument list needs no shell


if __name__ == "__main__":
    try:
        main()
    except PostroomError as error:
        sys.exit(f"prefect: {error}")
