"""The customer configuration file, read strictly: every problem named, with the customer and the field.

{"customers": {"code": {"name", "region", "ses_role_arn", "identity_center_role_arn"?, "sender", "reply_to"?,
                        "timezone", "contact_list", "recipients_allow"? [patterns], "max_send_rate"?,
                        "configuration_set"?}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from postroom.changes import times
from postroom.changes.differences import Difference, differences
from postroom.delivery.customer import Customer
from postroom.errors import BadInput, Unparsable, explain

CODE = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")  # it is part of a queue's name
_ADDRESS = re.compile(r"[^@\s<>,;\"]+@[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")
_NAMED = re.compile(r"""(?:"(?:[^"\\\r\n]|\\[^\r\n])*"|[^<>\r\n",;:@()\[\]\\]*)\s*<([^<>]+)>""")
_ROLE = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$"


def _zone(value: str) -> str:
    times.zone(value)
    return value


def _sender(value: str) -> str:
    named = _NAMED.fullmatch(value.strip())
    if named is None and value.rstrip().endswith(">"):
        raise ValueError(
            f'{value[:80]!r} is no sender; a name with signs such as a comma is put in quotes: "A, B" <a@b.c>'
        )
    _address(named[1] if named else value)
    return value


def _pattern(value: str) -> str:
    """An address or `*@domain`: anything else would match nobody, in silence."""
    if not _ADDRESS.fullmatch(value.lower()) or "*" in value.removeprefix("*@"):
        raise ValueError(f"{value[:80]!r} is no pattern; wanted is an address or *@domain")
    return value


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value.lower()):
        raise ValueError(f"{value[:80]!r} is no mail address")
    return value


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\r\n\x00]*$")]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    name: Line
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
    ses_role_arn: Annotated[str, StringConstraints(max_length=512, pattern=_ROLE)]
    sender: Annotated[Line, AfterValidator(_sender)]
    timezone: Annotated[str, AfterValidator(_zone)]
    contact_list: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    reply_to: Annotated[Line, AfterValidator(_address)] | None = None
    identity_center_role_arn: Annotated[str, StringConstraints(max_length=512, pattern=_ROLE)] | None = None
    recipients_allow: list[Annotated[Line, AfterValidator(_pattern)]] | None = None
    max_send_rate: Annotated[float, Field(gt=0, le=10_000)] | None = None
    configuration_set: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    customers: Annotated[dict[str, _Entry], Field(min_length=1)]


def read_customers(document: str | bytes) -> dict[str, Customer]:
    """Customers by code; BadInput naming everything that is wrong."""
    try:
        found = _File.model_validate_json(document)
    except ValidationError as error:
        kind = Unparsable if any(each["type"] == "json_invalid" for each in error.errors()) else BadInput
        raise kind(explain(error)) from None
    return {code: customer(code, entry.model_dump()) for code, entry in found.customers.items()}


def customer(code: str, entry: Mapping[str, Any]) -> Customer:
    """A customer of one entry; BadInput when the code or the entry can't be."""
    if not CODE.fullmatch(code) or code.endswith("-dlq"):
        raise BadInput(
            f"customer code {code[:80]!r} must be 1-31 characters of a-z, 0-9 and '-', "
            "beginning with a letter or digit, not ending in '-dlq'"
        )
    try:
        checked = _Entry.model_validate(dict(entry)).model_dump()
    except ValidationError as error:
        raise BadInput(f"customer {code}: {explain(error)}") from None
    allow = checked.pop("recipients_allow")
    return Customer(code=code, **checked, recipients_allow=None if allow is None else tuple(allow))


def entry_of(customer: Customer) -> dict[str, Any]:
    """The customer as its entry in the file, without what is not set."""
    entry = {name: value for name, value in asdict(customer).items() if name != "code" and value is not None}
    if customer.recipients_allow is not None:
        entry["recipients_allow"] = list(customer.recipients_allow)
    return entry


def changed(before: Customer | None, after: Customer | None) -> list[Difference]:
    """What differs between two states of a customer; None stands for: not there."""
    return list(differences(entry_of(before) if before else {}, entry_of(after) if after else {}))
