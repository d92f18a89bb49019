"""The domain our mail is sent from, as an SES identity."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import ClientError

from postroom.aws.clients import client
from postroom.aws.resource import code_of


@dataclass(frozen=True)
class Identity:
    """A sending domain. AWS verifies it once its DKIM records are in the DNS; the local AWS at once."""

    name: str
    kind: str = "sending identity"

    def differences(self) -> list[str] | None:
        try:
            client("sesv2").get_email_identity(EmailIdentity=self.name)
        except ClientError as error:
            if code_of(error) == "NotFoundException":
                return None
            raise
        return []

    def create(self) -> None:
        try:
            client("sesv2").create_email_identity(EmailIdentity=self.name)
        except ClientError as error:
            if code_of(error) != "AlreadyExistsException":  # someone was quicker
                raise

    def mend(self, differences: list[str]) -> None:
        """An identity has nothing to mend: its verification is the owner's of the domain."""
