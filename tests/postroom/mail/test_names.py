"""Names of attachments."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.mail.names import MAX_BYTES, safe, unique


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("photo.jpg", "photo.jpg"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.pdf", "plan.pdf"),
        ("a\x00b\r\nc.txt", "abc.txt"),
        ("e\u0301te\u0301.png", "été.png"),
        ("\u202egnp.exe", "gnp.exe"),
        (".htaccess", "htaccess"),
        ("-rf", "rf"),
        ("CON.txt", "_CON.txt"),
        ("what?.png", "what_.png"),
        ("..", "none"),
        ("", "none"),
        ("   ", "none"),
        (None, "none"),
        ("x" * 300 + ".jpeg", "x" * (MAX_BYTES - 5) + ".jpeg"),
    ],
)
def test_names_are_made_safe(name: str | None, expected: str) -> None:
    assert safe(name, "none") == expected


@given(st.lists(st.text(max_size=200), max_size=8))
def test_any_names_become_safe_and_unique(given_names: list[str]) -> None:
    found = unique([safe(name, "attachment") for name in given_names])
    assert len({name.casefold() for name in found}) == len(given_names)
    for name in found:
        assert 0 < len(name.encode()) <= MAX_BYTES
        assert not set(name) & set('/\\\0\r\n<>:"|?*')
        assert name not in (".", "..")
        assert not name.startswith((".", "-"))
        assert unicodedata.is_normalized("NFC", name)
