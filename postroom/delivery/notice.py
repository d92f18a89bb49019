"""A notice: one status of one version of a change, told to the people of one customer's account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from postroom.delivery.customer import Customer
from postroom.errors import BadInput


@dataclass(frozen=True)
class Notice:
    """What makes a delivery the same delivery: change, version, status and account (and the address)."""

    change_id: str
    version: int
    status: str
    customer: Customer
    topic: str
    kind: str

    @classmethod
    def of(cls, change: Mapping[str, Any], customer: Customer, topic: str, kind: str) -> Notice:
        """The notice of a change as the archive holds it."""
        found: dict[str, Any] = {name: change.get(name) for name in ("changeId", "version", "status")}
        if wrong := [name for name, value in found.items() if value is None or value == ""]:
            raise BadInput(f"the change has no {' and no '.join(wrong)}")
        try:
            version = int(found["version"])
        except (TypeError, ValueError):
            raise BadInput(f"the change's version {found['version']!r} is not a number") from None
        return cls(str(found["changeId"]), version, str(found["status"]), customer, topic, kind)

    @property
    def batch(self) -> str:
        """Its deliveries' batch. By account, not by customer: two codes of one account tell a person once."""
        return f"change:{self.change_id}:{self.version}:{self.status}:{self.customer.account}"

    @property
    def shelf(self) -> str:
        """Where the notices of a change are listed."""
        return f"change:{self.change_id}"

    @property
    def entry(self) -> str:
        """Its line on that shelf, in the order of versions."""
        return f"{self.version:06d}:{self.status}:{self.customer.code}"

    @property
    def detail(self) -> dict[str, str]:
        """What each delivery says about where it came from."""
        customer = self.customer
        return {"customer": customer.code, "role": customer.ses_role_arn, "region": customer.region}
