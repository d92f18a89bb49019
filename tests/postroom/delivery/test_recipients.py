"""Whom a notice goes to."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from postroom.delivery.recipients import Known, allowed, recipients
from tests.postroom.delivery.conftest import Account


@given(st.lists(st.integers(0, 20_000), max_size=50), st.integers(0, 20_000))
def test_known_addresses_are_known_and_others_are_not(numbers: list[int], other: int) -> None:
    known = Known(f"P{n}@example.com" for n in numbers)
    assert all(f"p{n}@EXAMPLE.com" in known for n in numbers)
    assert (f"p{other}@example.com" in known) == (other in numbers)


def test_many_are_known_too() -> None:
    known = Known(f"p{n}@example.com" for n in range(10_000))
    assert all(f"p{n}@example.com" in known for n in range(10_000))
    assert not any(f"q{n}@example.com" in known for n in range(10_000))


@pytest.mark.parametrize(
    ("address", "patterns", "expected"),
    [
        ("a@example.com", None, True),
        ("a@example.com", [], False),
        ("a@example.com", ["*@example.com"], True),
        ("a@sub.example.com", ["*@example.com"], False),
        ("a@evil-example.com", ["*@example.com"], False),
        ("A@Example.com", [" a@example.COM "], True),
        ("a@b@example.com", ["*@example.com"], True),
        ("example.com", ["*@example.com"], False),
        ("a@example.com", ["*", "*@", "*@*", "@example.com", "example.com"], False),
    ],
)
def test_patterns(address: str, patterns: list[str] | None, expected: bool) -> None:
    assert allowed(address, patterns) is expected


async def test_the_lists_spelling_is_kept_and_two_spellings_are_one_person(account: Account) -> None:
    account.subscribe(["Ann.Lee@Example.com", "bob@example.com"])
    pages = [page async for page in recipients(account.client("sesv2"), account.customer, "aws-approval")]
    [page] = pages
    assert [(each.address, each.key) for each in page.recipients] == [
        ("Ann.Lee@Example.com", "ann.lee@example.com"),
        ("bob@example.com", "bob@example.com"),
    ]
