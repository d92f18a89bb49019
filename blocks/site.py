"""A website that mail may change."""

from __future__ import annotations

import re
from typing import Literal

from prefect.blocks.core import Block
from pydantic import Field, field_validator

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Site(Block):
    """Who may change a website by mail, and where it lives."""

    _block_type_name = "Site"
    _block_type_slug = "site"
    _description = "A website that changes by mail: its project, its speakers, its repository."

    project: str = Field(
        default=..., title="Project", description="Name of the site: the part before `+` in its mail addresses."
    )
    users: list[str] = Field(
        default=..., min_length=1, title="Users", description="Speakers of the site: what may stand after the `+`."
    )
    domain: str = Field(
        default=..., title="Domain", description="Domain below which the site is published, e.g. example.com."
    )
    senders: list[str] = Field(
        default=..., min_length=1, title="Senders", description="Mail addresses that may give instructions."
    )
    repo: str | None = Field(
        default=None, title="Repository", description="URL or path of the git repository; empty for a new one."
    )
    agent: Literal["claude", "literal"] | None = Field(
        default=None, title="Agent", description="Who edits this site; empty for whoever edits all of them."
    )
    paused: bool = Field(
        default=False,
        title="Paused",
        description="Whether instructions only wait in the book; none is carried out.",
    )

    @field_validator("project")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError("must be 1-63 characters of a-z, 0-9 and '-', not beginning with '-'")
        return value

    @field_validator("users")
    @classmethod
    def _are_names(cls, value: list[str]) -> list[str]:
        for user in value:
            cls._is_a_name(user)
        return value

    @field_validator("senders")
    @classmethod
    def _are_addresses(cls, value: list[str]) -> list[str]:
        for address in value:
            if not re.fullmatch(r"[^@\s]+@[^@\s]+", address):
                raise ValueError(f"{address!r} is not a mail address")
        return [_lower_domain(address) for address in value]


def _lower_domain(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{domain.lower()}"


async def find_site(project: str) -> Site | None:
    """The block of a site; None when there is none."""
    if not NAME.fullmatch(project):
        return None
    try:
        return await Site.aload(project, validate=False)
    except ValueError:  # what Prefect raises when it knows no such document
        return None
