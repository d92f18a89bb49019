"""The data directory of a local post room: who runs it, where its parts listen, where its logs are."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from postroom.errors import BadInput, Misconfigured

CHECKOUT = Path(__file__).resolve().parent.parent
LOG_LIMIT = 5_000_000  # bytes of a log that are kept from one start to the next
REGION = "eu-west-1"


@dataclass(frozen=True)
class Ports:
    """Where the parts listen on 127.0.0.1."""

    prefect: int = 4200
    aws: int = 4566
    postgres: int = 4202
    sensor: int = 4203

    @classmethod
    def starting_at(cls, first: int) -> Ports:
        """The same parts on `first` and the ports after it."""
        last = 65535 - len(fields(cls)) + 1
        if not 1024 <= first <= last:
            raise Misconfigured(f"--ports-from is {first}: it must be between 1024 and {last}")
        return cls(**{field.name: first + n for n, field in enumerate(fields(cls))})


@dataclass(frozen=True)
class Premises:
    """One data directory."""

    data: Path

    @property
    def state_file(self) -> Path:
        return self.data / "house.json"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def prepare(self) -> None:
        """Makes the directories, and shortens logs that have grown long."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misconfigured(f"the data directory {self.data} can't be made: {error.strerror}") from None
        for log in self.logs.glob("*.log"):
            shorten(log)

    def lock(self) -> int | None:
        """The lock of whoever runs this post room, as an open file; None when someone else has it."""
        handle = os.open(self.data / "house.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    def is_running(self) -> bool:
        """Whether a supervisor holds the lock: a state file alone may be left from one that was killed."""
        if not (self.data / "house.lock").exists():
            return False
        handle = os.open(self.data / "house.lock", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replaces the state file in one step, so that a reader never sees half of it."""
        fresh = self.state_file.with_suffix(".new")
        fresh.write_text(json.dumps(state, indent=2) + "\n")
        fresh.replace(self.state_file)

    def state(self) -> dict[str, Any]:
        """What the supervisor last wrote; empty when there never was one."""
        try:
            found = json.loads(self.state_file.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise BadInput(f"{self.state_file} is not readable JSON ({error}); delete it and start again") from None
        return found if isinstance(found, dict) else {}


def addresses(ports: Ports) -> dict[str, str]:
    """URLs of the parts a person or a verb talks to."""
    return {
        "aws": f"http://127.0.0.1:{ports.aws}",
        "prefect": f"http://127.0.0.1:{ports.prefect}",
        "outbox": f"http://127.0.0.1:{ports.aws}/_postroom/outbox",
        "sensor": f"http://127.0.0.1:{ports.sensor}/healthz",
    }


def forget_foreign() -> None:
    """Takes a person's own AWS and Prefect accounts out of this process: a local post room has no use for them."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "PREFECT_API_", "PREFECT_CLOUD_")) or name == "PREFECT_PROFILE":
            del os.environ[name]


def environment(data: Path, urls: Mapping[str, str]) -> dict[str, str]:
    """What makes any process of ours talk to this local post room."""
    here = str(Path(sys.executable).parent)  # a run's own process is started as plain `python`: it must be ours
    path = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != here]
    return {
        "POSTROOM_DATA": str(data),
        "PATH": os.pathsep.join([here, *path]),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), _without_proxy()),
        "AWS_ENDPOINT_URL": urls["aws"],
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "000000000000",  # to the local AWS the key is also the account's number
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PREFECT_API_URL": f"{urls['prefect']}/api",
        "PREFECT_UI_URL": urls["prefect"],
        "PREFECT_HOME": str(data / "prefect"),
        "PREFECT_PROFILES_PATH": str(data / "prefect" / "profiles.toml"),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }


def _without_proxy() -> str:
    """Whom to talk to directly: a proxy for the outside can't reach our own address."""
    told = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    return ",".join(dict.fromkeys([*filter(None, told.split(",")), "127.0.0.1", "localhost"]))


def ports_of(state: Mapping[str, Any]) -> Ports:
    """The ports a state file tells of."""
    known = {name: state.get("ports", {}).get(name, value) for name, value in asdict(Ports()).items()}
    return Ports(**known)


def shorten(log: Path, limit: int = LOG_LIMIT) -> None:
    """Moves all but an empty file to `<log>.1` once it is longer than the limit; writers may go on appending."""
    try:
        if log.stat().st_size <= limit:
            return
        with log.open("rb") as old:
            old.seek(-limit, os.SEEK_END)
            log.with_name(log.name + ".1").write_bytes(old.read())
        os.truncate(log, 0)
    except FileNotFoundError:
        return
