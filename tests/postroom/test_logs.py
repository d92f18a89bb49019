"""Log lines carry the id of the work they are about, in every form, and no secrets."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from threading import Thread

import pytest

from postroom.logs import (
    VARIABLE,
    Correlated,
    JsonLines,
    ReadableLines,
    child_environment,
    correlate,
    correlation,
    correlation_for_key,
)


class Lines:
    """A logger, and what it wrote."""

    def __init__(self, form: logging.Formatter) -> None:
        self._written = io.StringIO()
        self.log = logging.Logger("postroom.test")  # belongs to no tree, so nothing else hears it
        for _ in range(2):  # a record that passes two handlers is marked once
            lines = logging.StreamHandler(self._written)
            lines.addFilter(Correlated())
            lines.setFormatter(form)
            self.log.addHandler(lines)

    def __iter__(self) -> Iterator[str]:
        return iter(self._written.getvalue().splitlines())


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("email:abc", "msg-abc"),
        ("task:t-1", "task-t-1"),
        ("edit:garden:7", "edit-garden:7"),
        ("change:c:acme:1", "change-c:acme:1"),
        ("odd", "odd"),
        ("email:a\nERROR forged", "msg-a_ERROR_forged"),
    ],
)
def test_a_key_gives_the_id_of_its_lines(key: str, name: str) -> None:
    assert correlation_for_key(key) == name


def test_every_readable_line_starts_with_the_id_also_those_of_a_traceback() -> None:
    lines = Lines(ReadableLines())
    with correlate("msg-abc"):
        try:
            raise ValueError("torn\nin two")
        except ValueError:
            lines.log.exception("could not open %s", "it")
    written = list(lines)
    assert len(written) > 4
    assert all(line.startswith("[msg-abc] ") for line in written)
    assert all(line.count("[msg-abc]") == 1 for line in written)


def test_json_lines_are_one_object_each_and_name_the_id() -> None:
    lines = Lines(JsonLines())
    with correlate("task-1"):
        lines.log.warning("two\nlines", extra={"flow_run_id": "f"})
    first, second = (json.loads(line) for line in lines)
    assert first == second
    assert (first["correlation"], first["message"], first["level"]) == ("task-1", "[task-1] two\nlines", "warning")
    assert first["flow_run_id"] == "f"


@pytest.mark.parametrize("form", [ReadableLines(), JsonLines()])
def test_no_secret_reaches_a_line(form: logging.Formatter) -> None:
    lines = Lines(form)
    try:
        raise ValueError("password=hunter2hunter2")
    except ValueError:
        lines.log.exception("with %s", "password=hunter2hunter2")
    assert "hunter2" not in "".join(lines)


def test_arguments_that_do_not_fit_still_give_a_line() -> None:
    lines = Lines(ReadableLines())
    lines.log.info("%d letters", "many")
    assert all("letters" in line and "many" in line for line in lines)


def test_the_id_ends_with_its_block_and_goes_along_into_threads() -> None:
    seen: list[str | None] = []
    with correlate("msg-outer"):
        with correlate("edit-inner"):
            thread = Thread(target=copy_context().run, args=(lambda: seen.append(correlation()),))
            thread.start()
            thread.join()
        seen.append(correlation())
    assert seen == ["edit-inner", "msg-outer"]


@pytest.mark.parametrize("form", ["json", "readable"])
def test_a_child_process_writes_the_same_id_in_the_form_of_the_setting(form: str) -> None:
    code = "import logging; from postroom.logs import start_logging; start_logging(); logging.info('here')"
    with correlate("msg-abc"):
        environment = {**os.environ, **child_environment(), "POSTROOM_LOG_FORMAT": form}
    assert VARIABLE not in os.environ
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    if form == "json":
        assert json.loads(answer.stdout)["message"] == "[msg-abc] here"
    else:
        assert answer.stdout.startswith("[msg-abc] ")
        assert answer.stdout.endswith("root - here\n")
