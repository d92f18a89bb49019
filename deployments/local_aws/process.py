"""How the local AWS is run as a process of its own, and what its clients need to know."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from workers.parts import Part

ACCOUNT = "000000000000"


def url(port: int) -> str:
    """AWS_ENDPOINT_URL of a local AWS."""
    return f"http://127.0.0.1:{port}"


def client_environment(port: int) -> dict[str, str]:
    """Variables with which any AWS client finds this one (the key is also the account's number)."""
    return {
        "AWS_ENDPOINT_URL": url(port),
        "AWS_REGION": os.environ.get("AWS_REGION", "eu-west-1"),
        "AWS_DEFAULT_REGION": os.environ.get("AWS_REGION", "eu-west-1"),
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def part(data: Path, port: int) -> Part:
    """The local AWS of a data directory, for a supervisor."""
    return Part(
        name="aws",
        argv=[sys.executable, "-m", "deployments.local_aws", "--port", str(port), "--data", str(data.resolve())],
        ready=lambda: answers(port),
        log=data / "logs" / "aws.log",
        ready_seconds=60,
    )


def answers(port: int) -> bool:
    """Whether it is there."""
    try:
        with urllib.request.urlopen(f"{url(port)}/_postroom/health", timeout=2) as answer:  # noqa: S310 - our own
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
