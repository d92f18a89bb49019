"""Every block reads well in the Prefect UI, and keeps its secrets."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from prefect.blocks.core import Block
from pydantic import SecretStr

from blocks.catalogue import BLOCKS
from blocks.site import Site

FOLDER = Path(__file__).parents[2] / "blocks"
SECRET = re.compile(r"token|secret|password|key$|credential")


def test_every_block_in_the_folder_is_in_the_catalogue() -> None:
    found = {
        member
        for file in FOLDER.glob("*.py")
        for _, member in inspect.getmembers(importlib.import_module(f"blocks.{file.stem}"), inspect.isclass)
        if issubclass(member, Block) and member.__module__ == f"blocks.{file.stem}"
    }
    assert found
    assert found == set(BLOCKS)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
class TestBlock:
    def test_it_explains_itself(self, block: type[Block]) -> None:
        assert block._description
        assert block._block_type_slug == block.get_block_type_slug()
        assert block.get_block_type_name()

    def test_every_field_has_a_title_and_a_description(self, block: type[Block]) -> None:
        for name, field in block.model_fields.items():
            assert field.title, f"{name} has no title"
            assert field.description, f"{name} has no description"
            assert field.description.endswith("."), f"{name}'s description is not a sentence"

    def test_secrets_are_not_shown(self, block: type[Block]) -> None:
        for name, field in block.model_fields.items():
            if SECRET.search(name):
                assert field.annotation in (SecretStr, SecretStr | None), f"{name} would be shown in the UI"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"project": "Garden Club"}, "1-63 characters"),
        ({"users": ["ann", "-bob"]}, "1-63 characters"),
        ({"users": []}, "at least 1 item"),
        ({"senders": ["ann"]}, "'ann' is not a mail address"),
    ],
)
def test_a_site_refuses_what_can_not_be(wrong: dict[str, object], said: str) -> None:
    right = {"project": "garden", "users": ["ann"], "domain": "example.com", "senders": ["ann@example.com"]}
    assert Site(**right).project == "garden"
    with pytest.raises(ValueError, match=said):
        Site(**{**right, **wrong})


def test_a_sender_is_kept_with_its_domain_in_lower_case() -> None:
    site = Site(project="garden", users=["ann"], domain="example.com", senders=["Ann@Example.COM"])
    assert site.senders == ["Ann@example.com"]
