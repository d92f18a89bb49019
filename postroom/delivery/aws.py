"""A customer's SES, reached by the customer's own role.

Two clients per role: one that reads and may try again, and one that sends and never does: SES has no
idempotency token, so a repeated SendEmail is a second mail.
"""

from __future__ import annotations

import functools
import os
import threading
from datetime import UTC, datetime
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError

from postroom.aws.clients import client, client_config
from postroom.delivery.customer import Customer
from postroom.errors import AuthFailed, PostroomError, classify
from postroom.settings import settings

CONNECT_SECONDS = 3.0
SESSION_SECONDS = 3600
_making = threading.Lock()


def reading(customer: Customer) -> Any:
    """The customer's SES for questions."""
    return by_role(customer.code, customer.ses_role_arn, customer.region)


def by_role(code: str, role: str, region: str) -> Any:
    """The same, for whoever knows no more of the customer."""
    return _client(code, role, region, _endpoint(), 0.0)


def sending(customer: Customer) -> Any:
    """The customer's SES for mail: every call is made once."""
    return _client(customer.code, customer.ses_role_arn, customer.region, _endpoint(), settings().delivery_call_seconds)


def check_role(customer: Customer) -> str:
    """The account that the customer's role leads to; AuthFailed, with names, when it can't be assumed."""
    found = assume(customer.code, customer.ses_role_arn)
    return str(found["account"] or customer.account)


def assume(code: str, role: str) -> dict[str, Any]:
    """Fresh credentials of a role, as botocore wants them."""
    try:
        answer = client("sts").assume_role(
            RoleArn=role, RoleSessionName=f"postroom-{code}"[:64], DurationSeconds=SESSION_SECONDS
        )
    except (ClientError, BotoCoreError) as error:
        raise _named(code, role, classify(error)) from None
    keys = answer["Credentials"]
    expires = keys["Expiration"]
    if isinstance(expires, datetime):
        expires = expires.astimezone(UTC).isoformat()
    arn = answer.get("AssumedRoleUser", {}).get("Arn", "")
    return {
        "access_key": keys["AccessKeyId"],
        "secret_key": keys["SecretAccessKey"],
        "token": keys["SessionToken"],
        "expiry_time": expires,
        "account": arn.split(":")[4] if arn.count(":") >= 5 else None,
    }


def forget() -> None:
    """Makes all clients anew at their next use: a role was mended, or a test begins."""
    _client.cache_clear()


def _named(code: str, role: str, error: PostroomError) -> PostroomError:
    said = f"customer {code}: role {role} can't be assumed: {error}"
    if error.retryable:
        return type(error)(said)
    return AuthFailed(said, customer=code, role=role)


@functools.lru_cache(maxsize=256)
def _client(code: str, role: str, region: str, endpoint: str | None, call_seconds: float) -> Any:
    session = botocore.session.get_session()
    session.register_component("data_loader", _loader())  # read once: else each client costs 80 ms and 9 MB

    def refreshed() -> dict[str, Any]:
        found = assume(code, role)
        found.pop("account")
        return found

    session._credentials = RefreshableCredentials.create_from_metadata(  # type: ignore[attr-defined]
        metadata=refreshed(), refresh_using=refreshed, method="sts-assume-role"
    )
    config = client_config(retries=not call_seconds, read_timeout=call_seconds or 30, pool=64)
    if call_seconds:
        config = config.merge(Config(connect_timeout=min(CONNECT_SECONDS, call_seconds)))
    config = config.merge(Config(region_name=region))
    with _making:
        return session.create_client("sesv2", region_name=region, endpoint_url=endpoint, config=config)


@functools.cache
def _loader() -> Any:
    return botocore.session.get_session().get_component("data_loader")


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_SESV2") or os.environ.get("AWS_ENDPOINT_URL")
