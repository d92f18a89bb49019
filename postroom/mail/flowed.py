"""format=flowed (RFC 3676): soft line breaks joined, quote depth kept."""

from __future__ import annotations


def unflow(text: str, *, delete_space: bool = False) -> str:
    """The text with its paragraphs on one line each."""
    out: list[str] = []
    held: list[str] = []
    held_depth = 0
    for line in text.split("\n"):
        bare = line.lstrip(">")
        depth = len(line) - len(bare)
        if bare.startswith(" "):
            bare = bare[1:]
        mark = "> " if depth == 1 else ">" * depth + " " if depth else ""
        if held and depth != held_depth:
            out.append("".join(held).rstrip(" "))
            held = []
        soft = bare.endswith(" ") and bare != "-- "
        if bare == "-- " and held:
            out.append("".join(held).rstrip(" "))
            held = []
        held.append(bare[:-1] if soft and delete_space else bare) if held else held.append(
            mark + (bare[:-1] if soft and delete_space else bare)
        )
        held_depth = depth
        if not soft:
            out.append("".join(held))
            held = []
    if held:
        out.append("".join(held).rstrip(" "))
    return "\n".join(out)
