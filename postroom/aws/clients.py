"""boto3 clients that honour AWS_ENDPOINT_URL and AWS_REGION, made once per process and kind."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

import boto3
from botocore.config import Config

_making = threading.Lock()  # a boto3 session may not be shared while it makes a client


def region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "eu-west-1"


def client_config(*, retries: bool = True, read_timeout: float = 30, pool: int = 32) -> Config:
    """Our settings for any client; `retries=False` for calls that must not be repeated blindly (SES)."""
    return Config(
        region_name=region(),
        signature_version="v4",
        s3={"addressing_style": "path"} if os.environ.get("AWS_ENDPOINT_URL") else {},
        retries={"mode": "standard", "total_max_attempts": 4} if retries else {"total_max_attempts": 1},
        connect_timeout=5,
        read_timeout=read_timeout,
        max_pool_connections=pool,
    )


@functools.lru_cache(maxsize=64)
def _client(service: str, endpoint: str | None, region_name: str, retries: bool, read_timeout: float) -> Any:
    config = client_config(retries=retries, read_timeout=read_timeout)
    if service == "s3":
        config = config.merge(Config(signature_version="s3v4"))
    with _making:
        return boto3.session.Session().client(
            service,  # type: ignore[call-overload]
            endpoint_url=endpoint,
            region_name=region_name,
            config=config,
        )


def client(service: str, *, retries: bool = True, read_timeout: float = 30) -> Any:
    """The process's client of an AWS service."""
    return _client(service, os.environ.get("AWS_ENDPOINT_URL"), region(), retries, read_timeout)
