"""The event bus."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.aws.resource import code_of


@dataclass(frozen=True)
class Bus:
    name: str
    kind: str = "bus"

    def differences(self) -> list[str] | None:
        try:
            client("events").describe_event_bus(Name=self.name)
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return None
            raise
        return []

    def create(self) -> None:
        try:
            client("events").create_event_bus(Name=self.name)
        except ClientError as error:
            if code_of(error) != "ResourceAlreadyExistsException":
                raise

    def mend(self, differences: list[str]) -> None:
        """A bus has nothing to mend."""
