"""A customer: whose people are told, through which SES account, in which time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formataddr, parseaddr

from postroom.errors import BadInput

CODE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):role/[\w+=,.@/-]{1,512}")


@dataclass(frozen=True)
class Customer:
    """One entry of the customer configuration. Two codes may point at one account."""

    code: str
    name: str
    region: str
    ses_role_arn: str
    sender: str
    timezone: str
    contact_list: str
    reply_to: str | None = None
    identity_center_role_arn: str | None = None
    recipients_allow: tuple[str, ...] | None = None  # None: everybody on the list; (): nobody
    max_send_rate: float | None = None
    configuration_set: str | None = None  # of the account's SES; None: the sending identity's default

    @property
    def mailbox(self) -> str:
        """The sender as a mail's From wants it: a name with a comma in quotes, one beyond ASCII encoded."""
        return formataddr(parseaddr(self.sender))

    @property
    def account(self) -> str:
        """The AWS account whose SES sends for this customer."""
        found = _ROLE.fullmatch(self.ses_role_arn)
        if found is None:
            raise BadInput(f"customer {self.code}: ses_role_arn {self.ses_role_arn!r} is not the ARN of a role")
        return found[1]
