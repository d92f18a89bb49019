"""A Prefect server on a Postgres, for the time of a measurement."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.local_prefect import LocalPrefect
from workers.parts import WITH_PARENT, free_port


@contextmanager
def private_prefect() -> Iterator[Path]:
    """The server's data directory; processes started inside the block use that server."""
    data = Path(tempfile.mkdtemp(prefix="postroom-bench-"))
    data.chmod(0o755)  # Postgres does not run as root
    before = dict(os.environ)
    try:
        os.environ.update({WITH_PARENT: "1", "DO_NOT_TRACK": "1", "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false"})
        with LocalPrefect(data, free_port(), free_port()) as server:
            os.environ["PREFECT_API_URL"] = server.url
            os.environ["PREFECT_HOME"] = str(data / "client")
            os.environ["PREFECT_PROFILES_PATH"] = str(data / "client" / "profiles.toml")
            os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "ERROR"  # lines go to the API only
            yield data
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(data, ignore_errors=True)
