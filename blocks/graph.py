"""The Microsoft 365 calendar that meetings are kept in."""

from __future__ import annotations

from prefect.blocks.core import Block
from prefect.exceptions import ObjectNotFound
from pydantic import Field, SecretStr, field_validator

from postroom.meetings.access import access_of
from postroom.meetings.microsoft import API, LOGIN, Access
from postroom.settings import Settings, settings

CALENDAR = "calendar"  # name of the block that flows use


class Graph(Block):
    """An application's way into one Microsoft 365 calendar."""

    _block_type_name = "Microsoft calendar"
    _block_type_slug = "graph"
    _description = "The Microsoft 365 calendar that meetings of changes are kept in, and the application that may."

    tenant: str = Field(default=..., title="Tenant", description="Id or domain of the Microsoft tenant.")
    client_id: str = Field(default=..., title="Client id", description="Id of the registered application.")
    client_secret: SecretStr = Field(default=..., title="Client secret", description="Secret of the application.")
    organizer: str = Field(
        default=..., title="Organizer", description="Mailbox whose calendar it is, e.g. changes@example.com."
    )
    online: bool = Field(
        default=True, title="Online meetings", description="Make a Teams meeting unless the change names a place."
    )
    hide_attendees: bool = Field(
        default=True, title="Hide attendees", description="Customers do not see each other's people."
    )
    api: str = Field(default=API, title="API", description="Address of Microsoft Graph; changed only in tests.")
    login: str = Field(default=LOGIN, title="Login", description="Where tokens are given; changed only in tests.")

    @field_validator("tenant", "client_id", "organizer")
    @classmethod
    def _is_said(cls, value: str) -> str:
        if not value.strip() or any(character.isspace() or character in "/?#" for character in value.strip()):
            raise ValueError("must be one word without '/', '?' and '#'")
        return value.strip()

    def access(self) -> Access:
        """As the library knows it."""
        return Access(**{name: getattr(self, name) for name in Access.__dataclass_fields__})

    @classmethod
    def of(cls, access: Access) -> Graph:
        return cls(**{name: getattr(access, name) for name in Access.__dataclass_fields__})


async def find_access(s: Settings | None = None) -> Access | None:
    """The calendar of the block, else of the settings; None when Graph is not set up."""
    try:
        found = await Graph.aload(CALENDAR)
    except ValueError as error:  # what Prefect raises for a document, or a type, that is not there
        if not isinstance(error.__cause__, ObjectNotFound):
            raise
        return access_of(s or settings())
    return found.access()
