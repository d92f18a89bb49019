"""Buckets: encryption, closed to the public, versions, lifecycle, policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from postroom.aws.clients import client, region
from postroom.aws.resource import code_of

_ENCRYPTION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
_CLOSED = dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True)
_UNSET = {
    *("ServerSideEncryptionConfigurationNotFoundError", "NoSuchPublicAccessBlockConfiguration"),
    *("NoSuchLifecycleConfiguration", "NoSuchBucketPolicy", "NoSuchTagSet"),
}


@dataclass(frozen=True)
class Rule:
    """One lifecycle rule."""

    id: str
    prefix: str = ""
    expire_days: int | None = None
    transitions: tuple[tuple[int, str], ...] = ()
    noncurrent_days: int | None = None
    abort_days: int | None = None

    def wire(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"ID": self.id, "Status": "Enabled", "Filter": {"Prefix": self.prefix}}
        if self.expire_days is not None:
            rule["Expiration"] = {"Days": self.expire_days}
        if self.transitions:
            rule["Transitions"] = [{"Days": days, "StorageClass": name} for days, name in self.transitions]
        if self.noncurrent_days is not None:
            rule["NoncurrentVersionExpiration"] = {"NoncurrentDays": self.noncurrent_days}
        if self.abort_days is not None:
            rule["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": self.abort_days}
        return rule


@dataclass(frozen=True)
class Bucket:
    """A bucket as it should be: encrypted and closed to the public, always."""

    name: str
    rules: tuple[Rule, ...] = ()
    versioned: bool = False
    policy: Sequence[dict[str, Any]] = field(default=())  # statements
    kind: str = "bucket"

    def differences(self) -> list[str] | None:
        try:
            client("s3").head_bucket(Bucket=self.name)
        except ClientError as error:
            if code_of(error) in {"404", "NoSuchBucket", "NotFound"}:
                return None
            raise
        return [aspect for aspect, (same, _) in self._aspects().items() if not same()]

    def create(self) -> None:
        place = {} if region() == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region()}}
        try:
            client("s3").create_bucket(Bucket=self.name, **place)
        except ClientError as error:
            if code_of(error) not in {"BucketAlreadyOwnedByYou", "OperationAborted"}:  # someone was quicker
                raise
        self.mend(self.differences() or [])

    def mend(self, differences: list[str]) -> None:
        for aspect in differences:
            self._aspects()[aspect][1]()

    def _aspects(self) -> dict[str, tuple[Callable[[], bool], Callable[[], object]]]:
        """By name: is it as it should be, and what makes it so."""
        s3, name = client("s3"), self.name
        aspects: dict[str, tuple[Callable[[], bool], Callable[[], object]]] = {
            "encryption": (
                lambda: _encrypted(_set(s3.get_bucket_encryption, name)),
                lambda: s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration=_ENCRYPTION),
            ),
            "public access block": (
                lambda: _set(s3.get_public_access_block, name).get("PublicAccessBlockConfiguration") == _CLOSED,
                lambda: s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=_CLOSED),
            ),
        }
        if self.versioned:
            aspects["versioning"] = (
                lambda: s3.get_bucket_versioning(Bucket=name).get("Status") == "Enabled",
                lambda: s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"}),
            )
        if self.rules:
            rules = [rule.wire() for rule in self.rules]
            aspects["lifecycle"] = (
                lambda: _same_rules(_set(s3.get_bucket_lifecycle_configuration, name).get("Rules", []), rules),
                lambda: s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules}),
            )
        if self.policy:
            policy = {"Version": "2012-10-17", "Statement": list(self.policy)}
            aspects["policy"] = (
                lambda: json.loads(_set(s3.get_bucket_policy, name).get("Policy", "{}")) == policy,
                lambda: s3.put_bucket_policy(Bucket=name, Policy=json.dumps(policy)),
            )
        return aspects


def _set(ask: Callable[..., Any], bucket: str) -> dict[str, Any]:
    """What is set on a bucket, {} when nothing is."""
    try:
        return dict(ask(Bucket=bucket))
    except ClientError as error:
        if code_of(error) in _UNSET:
            return {}
        raise


def _encrypted(answer: dict[str, Any]) -> bool:
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", [])
    return any(
        rule.get("ApplyServerSideEncryptionByDefault", {}).get("SSEAlgorithm") in ("AES256", "aws:kms")
        for rule in rules
    )


def _same_rules(have: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    def plain(rules: list[dict[str, Any]]) -> dict[str, Any]:
        return {rule["ID"]: {key: value for key, value in rule.items() if key != "Prefix"} for rule in rules}

    return plain(have) == plain(wanted)
