"""A customer whose people are told of changes."""

from __future__ import annotations

from typing import Any

from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import BlockDocument
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from pydantic import Field, model_validator

from postroom.changes.customers import CODE, customer, entry_of
from postroom.delivery.customer import Customer as Plain
from postroom.errors import BadInput

PAGE = 200


class Customer(Block):
    """Whose people are told of changes, through which SES account, in which time zone."""

    _block_type_name = "Customer"
    _block_type_slug = "customer"
    _description = "A customer of changes: the role of its SES account, its sender, contact list and time zone."

    code: str = Field(default=..., title="Code", description="Short name of the customer, also the block's name.")
    name: str = Field(default=..., title="Name", description="Name of the customer, for people.")
    region: str = Field(default=..., title="Region", description="AWS region of the customer's SES.")
    ses_role_arn: str = Field(
        default=..., title="SES role", description="ARN of the role in the customer's account that may send."
    )
    sender: str = Field(default=..., title="Sender", description="Address (or `Name <address>`) the mail comes from.")
    timezone: str = Field(default=..., title="Time zone", description="IANA name, e.g. Europe/Berlin.")
    contact_list: str = Field(default=..., title="Contact list", description="Name of the SES contact list.")
    reply_to: str | None = Field(default=None, title="Reply to", description="Where answers go; empty for the sender.")
    identity_center_role_arn: str | None = Field(
        default=None, title="Identity Center role", description="ARN of the role that may read the Identity Center."
    )
    recipients_allow: list[str] | None = Field(
        default=None,
        title="Allowed recipients",
        description="Patterns of addresses that may be told; empty list: nobody; unset: everybody on the list.",
    )
    max_send_rate: float | None = Field(
        default=None, gt=0, title="Send rate", description="Mails per second at most; unset for the account's own."
    )
    configuration_set: str | None = Field(
        default=None,
        title="Configuration set",
        description="SES configuration set that publishes what becomes of mails; unset for the sender's default.",
    )

    @model_validator(mode="after")
    def _can_be(self) -> Customer:
        try:
            self.plain()
        except BadInput as error:
            raise ValueError(str(error)) from None
        return self

    def plain(self) -> Plain:
        """The customer as the library knows it."""
        entry = {name: getattr(self, name) for name in Plain.__dataclass_fields__ if name != "code"}
        return customer(self.code, entry)

    @classmethod
    def of(cls, plain: Plain) -> Customer:
        return cls(code=plain.code, **entry_of(plain))


async def find_customer(code: str) -> Plain | None:
    """The customer of a code; None when there is none."""
    if not CODE.fullmatch(code):
        return None
    async with get_client() as client:
        try:
            document = await client.read_block_document_by_name(code, str(Customer._block_type_slug))
        except ObjectNotFound:
            return None
    return _plain(document)


async def all_customers() -> dict[str, Plain]:
    """Every customer by code, in the order of the codes."""
    found: dict[str, Plain] = {}
    async with get_client() as client:
        while True:
            try:
                page = await client.read_block_documents_by_type(
                    str(Customer._block_type_slug), offset=len(found), limit=PAGE
                )
            except (ObjectNotFound, PrefectHTTPStatusError) as error:
                if isinstance(error, PrefectHTTPStatusError) and error.response.status_code != 404:
                    raise
                return {}  # the type is not known yet, so there is none
            found |= {each.code: each for each in map(_plain, page)}
            if len(page) < PAGE:
                return dict(sorted(found.items()))


def _plain(document: BlockDocument) -> Plain:
    fields: dict[str, Any] = {name: document.data.get(name) for name in Plain.__dataclass_fields__}
    if fields.pop("code") != document.name:
        raise BadInput(f"the block customer/{document.name} has another code; both must be the same")
    return customer(str(document.name), fields)


async def save_customer(plain: Plain) -> None:
    """Write the customer's block."""
    await Customer.of(plain).asave(plain.code, overwrite=True)


async def remove_customer(code: str) -> None:
    """Take the customer's block away, if it is there."""
    try:
        await Customer.adelete(code)
    except ValueError as error:
        if not isinstance(error.__cause__, ObjectNotFound):
            raise
