"""Whether a document can go all the way: through the queue, into the book, and into a run's parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from postroom.errors import BadInput, Unparsable

MOST_BYTES = 262_144  # what a message may hold, and what fits into a row of the book
MOST_DEPTH = 60


def check_storable(value: Any, what: str, depth: int = 0) -> None:
    """Postgres stores no NUL, UTF-8 no half of a surrogate pair, JSON no infinity: raises BadInput that says so."""
    if depth > MOST_DEPTH:
        raise Unparsable(f"{what} is nested deeper than {MOST_DEPTH}")
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise Unparsable(f"{what} holds a NUL or half a surrogate pair, which can't be stored")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Unparsable(f"{what} holds a number that JSON does not know")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            check_storable(name, what, depth)
            check_storable(inner, what, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            check_storable(inner, what, depth + 1)


def as_message(document: Mapping[str, Any], what: str) -> str:
    """The document as it is sent; BadInput when whoever receives it could not take it."""
    check_storable(document, what)
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if (size := len(body.encode())) > MOST_BYTES:
        raise BadInput(f"{what} has {size} bytes; a message may have {MOST_BYTES}")
    return body
