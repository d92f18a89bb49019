"""The structured answer: the schema as the CLI can take it, and whether an answer keeps to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

_SHARED = ("$defs", "definitions", "$schema")


def as_object(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema as one of an object (a tool's arguments always are one), and whether it had to be wrapped."""
    if schema.get("type") == "object":
        return dict(schema), False
    shared = {key: schema[key] for key in _SHARED if key in schema}  # references point to the top
    inner = {key: value for key, value in schema.items() if key not in _SHARED}
    wrapped = {"type": "object", "properties": {"value": inner}, "required": ["value"], "additionalProperties": False}
    return {**shared, **wrapped}, True


def unwrapped(output: Any, wrapped: bool) -> Any:
    """The answer itself."""
    return output.get("value") if wrapped and isinstance(output, Mapping) else output


def mismatch(output: Any, schema: Mapping[str, Any]) -> str:
    """Where the output breaks the schema, in words; empty when it does not."""
    try:
        for error in validator_for(schema)(schema).iter_errors(output):
            return f"{'.'.join(str(p) for p in error.absolute_path) or 'the answer'}: {error.message[:300]}"
    except RecursionError:
        return "the schema refers to itself without end"
    except Unresolvable as error:
        return f"the schema refers to what it does not hold: {str(error)[:200]}"
    return ""
