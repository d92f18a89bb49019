"""A small answer that keeps to a JSON schema, for when nobody is there to think of a real one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from postroom.agent.answer import mismatch
from postroom.errors import BadInput

_DEEP = 12
_FORMATS = {
    "date": "2026-01-01",
    "time": "12:00:00Z",
    "date-time": "2026-01-01T12:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uri-reference": "/example",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example_of(schema: Mapping[str, Any]) -> Any:
    """An answer that is valid against the schema: its own example if it has one, else made from it."""
    made = _made(schema, schema, 0)
    if wrong := mismatch(made, schema):
        raise BadInput(f"no example could be made for the output schema ({wrong}); add one to it under `examples`")
    return made


def _made(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEP:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    if isinstance(ref := schema.get("$ref"), str):
        return _made(_followed(ref, root), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _chosen(schema, key, root, depth)
    if isinstance(schema.get("allOf"), list):
        return _made(_joined(schema, [_plain(s, root) for s in schema["allOf"]]), root, depth + 1)
    return _by_kind(schema, root, depth)


def _chosen(schema: Mapping[str, Any], key: str, root: Mapping[str, Any], depth: int) -> Any:
    """Made from the first of the alternatives that fits."""
    rest = {name: value for name, value in schema.items() if name != key}
    for option in schema[key]:
        made = _made(_joined(rest, [_plain(option, root)]), root, depth + 1)
        if not mismatch(made, {**{k: root[k] for k in ("$defs", "definitions") if k in root}, **schema}):
            return made
    return _made(schema[key][0], root, depth + 1)


def _by_kind(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    match kind:
        case "string":
            return _string(schema)
        case "integer" | "number":
            return _number(schema, whole=kind == "integer")
        case "boolean":
            return False
        case "null":
            return None
        case "array":
            before = [_made(s, root, depth + 1) for s in schema.get("prefixItems", [])]
            missing = max(0, int(schema.get("minItems", 0)) - len(before))
            return before + [_made(schema.get("items", {"type": "string"}), root, depth + 1) for _ in range(missing)]
        case "object":
            return _object(schema, root, depth)
        case _:
            return _object(schema, root, depth) if "properties" in schema else "example"


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    wanted = list(dict.fromkeys([*properties, *schema.get("required", [])]))
    if depth > 4:  # a schema that holds itself must come to an end
        wanted = list(schema.get("required", []))
    return {name: _made(properties.get(name, {"type": "string"}), root, depth + 1) for name in wanted}


def _string(schema: Mapping[str, Any]) -> str:
    text = _FORMATS.get(str(schema.get("format")), "example")
    text = text.ljust(int(schema.get("minLength", 0)), "x")
    return text[: int(schema["maxLength"])] if "maxLength" in schema else text


def _number(schema: Mapping[str, Any], *, whole: bool) -> float | int:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    step = schema.get("multipleOf", 1 if whole else None)
    value: float = 0
    if low is not None and value <= low:
        value = low if "minimum" in schema else low + (step or 1)
    if high is not None and value >= high:
        value = high if "maximum" in schema else high - (step or 1)
    if low is not None and high is not None and not low < value < high and low < high:
        value = (low + high) / 2
    if step:
        value = math.ceil(value / step) * step
    return int(value) if whole or float(value).is_integer() else value


def _plain(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        schema = _followed(schema["$ref"], root)
    return schema if isinstance(schema, Mapping) else {}


def _joined(first: Mapping[str, Any], more: list[Mapping[str, Any]]) -> dict[str, Any]:
    whole = {key: value for key, value in first.items() if key != "allOf"}
    for one in more:
        for key, value in one.items():
            if key == "properties":
                whole[key] = {**whole.get(key, {}), **value}
            elif key == "required":
                whole[key] = [*whole.get(key, []), *value]
            else:
                whole[key] = value
    return whole


def _followed(ref: str, root: Mapping[str, Any]) -> Any:
    at: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        at = at.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(at, Mapping) else None
    return at
