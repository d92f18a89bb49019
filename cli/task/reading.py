"""A JSON object from a file or from standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from postroom.errors import BadInput, Unparsable
from postroom.tasks.storable import MOST_BYTES, check_storable


def json_object(name: str) -> dict[str, Any]:
    """The object; an error that names the file and what is wrong with it."""
    shown = "standard input" if name == "-" else name
    try:
        raw = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise BadInput(f"{shown} can't be read: {error.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise BadInput(f"{shown} is larger than the {MOST_BYTES} bytes that a message may have")
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unparsable(f"{shown} is not UTF-8") from None
    except RecursionError:
        raise Unparsable(f"{shown} is nested too deeply") from None
    except ValueError as error:
        raise Unparsable(f"{shown} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{shown} holds no JSON object but {type(found).__name__}")
    check_storable(found, shown)
    return found
