"""What an error may say, and how long it takes to find out."""

import errno
import os
import time

import pytest

from postroom.agent.prompt import clean, placeholders
from postroom.errors import classify, sanitise
from postroom.media.kinds import recognise

LONG = 200_000
ALLOWED_SECONDS = 10.0  # of CPU on a slow machine; what is tried here takes a fraction of one, or minutes


@pytest.mark.parametrize(
    "piece", ["a", "a-", "1.", "secret", "secret-", "api_key", "X-Amz-a", "eyJ-", "--x", "password: ", "://a:", "a@a."]
)
def test_secrets_are_sought_in_a_long_text_in_time(piece: str) -> None:
    began = time.process_time()
    sanitise(piece * (LONG // len(piece)), addresses=True)
    assert time.process_time() - began < ALLOWED_SECONDS


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("my-client-secret-2: abcdefgh", "my-client-secret-2: [secret]"),
        ("my-client-secret = 'abcdefgh'", "my-client-secret = '[secret]'"),
        ('{"AWS_SECRET_ACCESS_KEY": "abcd/efgh"}', '{"AWS_SECRET_ACCESS_KEY": "[secret]"}'),
        ("x-eyJhbGciOiJub25l.eyJzdWIiOiJh.c2ln ok", "x-[token] ok"),
        ("ask a.b+c@example.com, please", "ask [address], please"),
    ],
)
def test_what_is_secret_is_not_said(said: str, told: str) -> None:
    assert sanitise(said, addresses=True) == told


@pytest.mark.parametrize("piece", [b" ", b"<!---->", b"<!DOCTYPE[]>", b"<??>"])
def test_a_file_is_recognised_in_time_whatever_it_begins_with(piece: bytes) -> None:
    began = time.process_time()
    assert recognise(piece * (8000 // len(piece)) + b"x").content_type == "text/plain"
    assert time.process_time() - began < ALLOWED_SECONDS


def test_text_for_an_agent_is_cleaned_in_time() -> None:
    began = time.process_time()
    assert len(clean("a" + "\u0300\u0323" * (LONG // 2))) < 40
    assert placeholders("{{" * (LONG // 2)) == []
    assert time.process_time() - began < ALLOWED_SECONDS


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
def test_a_machine_that_ran_out_of_something_is_tried_again(number: int) -> None:
    error = classify(OSError(number, os.strerror(number)))
    assert (error.category, error.retryable) == ("server", True)
