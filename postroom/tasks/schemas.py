"""Whether an output schema can be used: valid, not too large, and sufficient unto itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

MOST_BYTES = 100_000
_POINTERS = ("$ref", "$dynamicRef", "$recursiveRef")


def check_schema(schema: dict[str, Any]) -> None:
    """Raises ValueError saying what is wrong with it."""
    if len(json.dumps(schema)) > MOST_BYTES:
        raise ValueError(f"larger than {MOST_BYTES} bytes")
    for pointer in _pointers(schema):
        # anything else would be fetched from wherever it points to, by whoever checks the answer
        if not pointer.startswith("#"):
            raise ValueError(f"refers to {pointer[:80]!r}; only references within the schema (#/…) are followed")
    try:
        validator_for(schema).check_schema(schema)
        samples: list[Any] = [None, 0, "", [], {}]
        for sample in samples:  # what no answer could ever be checked against shows at once
            validator_for(schema)(schema).is_valid(sample)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path) or "the schema"
        raise ValueError(f"no valid JSON schema: {where}: {error.message[:300]}") from None
    except RecursionError:
        raise ValueError("nested too deeply, or refers to itself without end") from None
    except Unresolvable as error:
        raise ValueError(f"refers to what it does not hold: {str(error)[:200]}") from None


def _pointers(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _POINTERS and isinstance(inner, str):
                yield inner
            elif name not in ("const", "enum", "default", "examples"):
                yield from _pointers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _pointers(inner)
