"""Every error postroom raises on purpose, in one tree.

    PostroomError                   category      retry   exit
    ├── BadInput                    validation    no      65
    │   ├── Unparsable              parse         no      65
    │   ├── Refused                 refused       no      65
    │   ├── BuildFailed             build         no      65   (knows the last lines of the build)
    │   └── Conflict                conflict      no      65   (two edits of the same lines; knows the files)
    ├── Missing                     not-found     no      65
    ├── AuthFailed                  auth          no      69
    ├── Misconfigured               configuration no      2
    ├── Unavailable                 server        yes     69
    │   ├── TimedOut                timeout       yes     69
    │   ├── NetworkDown             network       yes     69
    │   └── RateLimited             rate-limit    yes     69   (knows when to come back)
    │       └── QuotaReached        quota         yes     69   (knows when the next window opens)
    ├── LeaseLost                   lease         no      70   (another holder has the work now)
    ├── LimitReached                limit         no      70   (turns, money, quota: what there is was kept)
    │   └── OutOfTime               timeout       no      70   (the time that the work was given is used up)
    └── OurFault                    programming   no      70

The place that fails decides whether a retry can help; `classify` does the same for
errors of other libraries, by type and status code.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

DAY = 86_400.0


class PostroomError(Exception):
    """An error that knows its category, whether a retry helps, and what a stranger may read."""

    category: ClassVar[str] = "programming"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 70
    safe_default: ClassVar[str] = "Something went wrong on our side."

    def __init__(self, message: str, *, safe: str | None = None, **details: Any) -> None:
        super().__init__(sanitise(message))
        self.safe_message = safe or self.safe_default
        self.details: Mapping[str, Any] = {k: _sanitised(v) for k, v in details.items()}


class BadInput(PostroomError):
    category = "validation"
    exit_code = 65
    safe_default = "What was sent could not be used."


class Unparsable(BadInput):
    category = "parse"
    safe_default = "What was sent could not be read."


class Refused(BadInput):
    category = "refused"
    safe_default = "This was not accepted."


class BuildFailed(BadInput):
    category = "build"
    safe_default = "The site could not be built with this change."


class Conflict(BadInput):
    category = "conflict"
    safe_default = "Someone else changed the same place at the same time."

    def __init__(self, message: str, *, files: Sequence[str], safe: str | None = None, **details: Any) -> None:
        super().__init__(message, safe=safe, files=list(files), **details)
        self.files = tuple(files)


class Missing(PostroomError):
    category = "not-found"
    exit_code = 65
    safe_default = "Something this work needs is not there."


class AuthFailed(PostroomError):
    category = "auth"
    exit_code = 69
    safe_default = "A service did not accept our credentials."


class Misconfigured(PostroomError):
    category = "configuration"
    exit_code = 2
    safe_default = "postroom is not set up correctly."


class Unavailable(PostroomError):
    category = "server"
    retryable = True
    exit_code = 69
    safe_default = "A service we depend on is not answering."


class TimedOut(Unavailable):
    category = "timeout"
    safe_default = "It took too long."


class NetworkDown(Unavailable):
    category = "network"


class RateLimited(Unavailable):
    category = "rate-limit"
    safe_default = "A service asked us to slow down."

    def __init__(
        self, message: str, *, retry_after: float | None = None, safe: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, safe=safe, **details)
        # Whatever a stranger's header says (`inf`, 1e12): nobody waits longer than a day before asking again.
        self.retry_after = None if retry_after is None else min(max(0.0, retry_after), DAY)


class QuotaReached(RateLimited):
    """A day's quota is used up. `opens_at` (ISO 8601, UTC) says when there will be room again."""

    category = "quota"
    safe_default = "Today's quota is used up; the rest goes out when there is room again."

    def __init__(self, message: str, *, opens_at: str, retry_after: float, safe: str | None = None) -> None:
        super().__init__(message, retry_after=retry_after, safe=safe, opens_at=opens_at)
        self.opens_at = opens_at


class LeaseLost(PostroomError):
    category = "lease"
    safe_default = "Another worker took this work over."


class LimitReached(PostroomError):
    category = "limit"
    safe_default = "A limit was reached before the work was finished."


class OutOfTime(LimitReached):
    category = "timeout"
    safe_default = "It took too long."


class OurFault(PostroomError):
    pass


# The text may be a stranger's and long, and matching holds up the whole process: each pattern takes time that grows
# with the text, not with its square. So none begins with an open repetition, and none reads far ahead to fail there.
_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "[aws key]"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{12,}"), "[api key]"),
    (re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{8,}"), "[slack token]"),
    (re.compile(r"\bpnu_[A-Za-z0-9]{8,}|\bpnb_[A-Za-z0-9]{8,}"), "[prefect key]"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*"), "[token]"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 [secret]"),
    (re.compile(r"(?i)([?&](?:X-Amz-[A-Za-z-]+|Signature|sig|token|code|key)=)[^&\s\"'<>]+"), r"\1[secret]"),
    (re.compile(r"(?i)(://[^/\s:@]+:)[^@\s/]+@"), r"\1[secret]@"),
    (
        re.compile(
            r"(?i)((?:secret|password|passwd|api[_-]?key|access[_-]?key|session[_-]?token|"
            r"oauth[_-]?token|auth[_-]?token|client[_-]?secret)[a-z0-9_-]{0,40}[\"']?\s*[:=]\s*[\"']?)[^\s\"',;}]{4,}"
        ),
        r"\1[secret]",
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"), "[private key]"),
)
_ADDRESS = re.compile(r"[A-Za-z0-9._%+-]{1,64}+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")


def sanitise(text: str, *, addresses: bool = False, limit: int = 8000) -> str:
    """The text without keys, tokens, signatures and (if asked) mail addresses."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    if addresses:
        text = _ADDRESS.sub("[address]", text)
    return text if len(text) <= limit else text[:limit] + f"… ({len(text) - limit} more)"


def _sanitised(value: Any) -> Any:
    if isinstance(value, str):
        return sanitise(value)
    if isinstance(value, Mapping):
        return {k: _sanitised(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sanitised(v) for v in value]
    return value


_AUTH_CODES = {
    *("AccessDenied", "AccessDeniedException", "UnauthorizedException", "InvalidClientTokenId", "ExpiredToken"),
    *("ExpiredTokenException", "SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidAccessKeyId"),
}
_THROTTLE_CODES = {
    *("Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "SlowDown"),
    *("RequestLimitExceeded", "ProvisionedThroughputExceededException", "LimitExceededException"),
    *("RequestThrottled", "RequestThrottledException", "BandwidthLimitExceeded", "OverLimit"),
    *("KmsThrottled", "KMS.ThrottlingException", "KMSThrottlingException", "KMSThrottling"),
}
_TIMEOUT_CODES = {"RequestTimeout", "RequestTimeoutException"}  # S3 says so with status 400
# Another one writes the same rows just now.
_CONFLICT_CODES = {"TransactionConflictException", "TransactionInProgressException", "PriorRequestNotComplete"}
_CONFLICT_REASONS = {"TransactionConflict"}
_THROTTLE_REASONS = {"ThrottlingError", "ProvisionedThroughputExceeded"}
_MISSING_CODES = {
    *("NoSuchKey", "NoSuchBucket", "NotFound", "NotFoundException", "ResourceNotFoundException", "404"),
    *("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"),
}


def from_status(status: int, message: str, *, retry_after: float | None = None) -> PostroomError:
    """The error that an HTTP status stands for."""
    if status in (401, 403):
        return AuthFailed(message, status=status)
    if status == 404:
        return Missing(message, status=status)
    if status in (408, 504):
        return TimedOut(message, status=status)
    if status == 429:
        return RateLimited(message, retry_after=retry_after, status=status)
    if status >= 500:
        return Unavailable(message, status=status)
    return BadInput(message, status=status)


# Disk, memory, processes or files have run out on this machine: that passes.
_EXHAUSTED = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EMFILE,
    errno.ENFILE,
    errno.EIO,
    errno.EBUSY,
}


def classify(error: BaseException) -> PostroomError:
    """The same error as one of ours: by type first, then by status code, never by searching its text."""
    if isinstance(error, PostroomError):
        return error
    named = f"{type(error).__name__}: {error}"
    from botocore import exceptions as aws

    if isinstance(error, aws.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
        if code in _AUTH_CODES:
            return AuthFailed(named, code=code)
        if code in _THROTTLE_CODES:
            return RateLimited(named, code=code)
        if code in _TIMEOUT_CODES:
            return TimedOut(named, code=code)
        if code in _CONFLICT_CODES:
            return Unavailable(named, code=code)
        if code in _MISSING_CODES:
            return Missing(named, code=code)
        if code == "TransactionCanceledException" and (reasons := cancellation_reasons(error)):
            if reasons <= _CONFLICT_REASONS:
                return Unavailable(named, code=code)
            if reasons <= _CONFLICT_REASONS | _THROTTLE_REASONS:
                return RateLimited(named, code=code)
        return from_status(status, named) if status else Unavailable(named, code=code)
    if isinstance(error, (aws.ReadTimeoutError, aws.ConnectTimeoutError, TimeoutError)):
        return TimedOut(named)
    if isinstance(error, (aws.NoCredentialsError, aws.PartialCredentialsError)):
        return AuthFailed(named)
    if isinstance(error, (aws.HTTPClientError, aws.ConnectionError, aws.EndpointConnectionError)):
        return NetworkDown(named)
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        after = error.response.headers.get("retry-after")
        seconds = float(after) if after and after.isdecimal() else None
        return from_status(error.response.status_code, named, retry_after=seconds)
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(named)
    if isinstance(error, httpx.TransportError):
        return NetworkDown(named)
    if isinstance(error, FileNotFoundError):
        return Missing(named)
    if isinstance(error, (ConnectionError, BrokenPipeError)):
        return NetworkDown(named)
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return Unavailable(named, safe="This machine had no room left for the work.")
    import json

    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return Unparsable(named)
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return BadInput(explain(error))
    return OurFault(named)


def cancellation_reasons(error: Any) -> set[str]:
    """Why DynamoDB cancelled a transaction: the codes of its writes that were the cause."""
    reasons = error.response.get("CancellationReasons") or []
    return {str(reason.get("Code")) for reason in reasons} - {"None"}


def exit_code_of(category: str | None) -> int:
    """The exit code that errors of a category stand for, the higher of two; 70 when nobody knows the category."""
    kinds: list[type[PostroomError]] = [PostroomError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return max((kind.exit_code for kind in kinds if kind.category == category), default=70)


def explain(error: Any) -> str:
    """A pydantic validation error as sentences that name the field and what is wrong with it."""
    said = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"]) or "the document"
        said.append(f"{where}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(said)
