"""`python -m deployments.local_aws --port N --data DIR`: runs the local AWS until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from deployments.local_aws import process
from workers.parts import end_with_parent, port_is_free


def prepare(data: Path) -> None:
    """The environment ministack reads when it is imported."""
    os.environ.update(
        BIND_HOST="127.0.0.1",
        IOT_MTLS_ENABLED="0",
        SFTP_ENABLED="0",
        PERSIST_STATE="0",  # the journal keeps the state; ministack would only save it on a clean stop
        S3_PERSIST="0",
        STATE_DIR=str(data / "ministack"),
        GATEWAY_PORT="4566",  # part of the stored queue URLs; answers carry the address the caller used
        MINISTACK_REGION=os.environ.get("AWS_REGION", "eu-west-1"),
        MINISTACK_ACCOUNT_ID=process.ACCOUNT,
        MINISTACK_WORKER_THREADS="8",
        DOCKER_HOST="unix:///nonexistent",  # nothing here runs in containers
    )
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    for name in ("AUTH", "SERVICES", "MINISTACK_HOST", "LOCALSTACK_PERSISTENCE", "USE_SSL"):
        os.environ.pop(name, None)


async def serve(port: int, data: Path) -> None:
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config

    from deployments.local_aws.app import LocalAws

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "WARNING"
    config.accesslog = None
    config.keep_alive_timeout = 75
    config.graceful_timeout = 0.5  # long polls do not hold up a stop
    config.shutdown_timeout = 5
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)

    async def stopped() -> None:
        await stop.wait()

    await hypercorn_serve(LocalAws(data), config, shutdown_trigger=stopped)  # type: ignore[arg-type]


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m deployments.local_aws", description=__doc__)
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--data", type=Path, required=True, help="directory that keeps the state")
    given = arguments.parse_args()
    end_with_parent()
    if not port_is_free(given.port):
        print(f"local AWS: port {given.port} of 127.0.0.1 is taken", file=sys.stderr)
        return 69
    data = given.data.resolve() / "aws"
    data.mkdir(parents=True, exist_ok=True)
    prepare(data)
    asyncio.run(serve(given.port, data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
