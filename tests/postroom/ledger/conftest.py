import pytest

from postroom.aws.names import Names
from postroom.ledger.book import Book
from postroom.settings import settings


@pytest.fixture
def book(provisioned: Names) -> Book:
    """A book of this test's own, all its pages empty."""
    return Book(settings())
