"""The steps of the mail's flows, read from the code: a new one is tested by itself."""

import ast
from functools import cache
from pathlib import Path

FLOWS = Path(__file__).parents[2] / "flows"


@cache
def steps() -> tuple[str, ...]:
    """The first argument of every call of `reached` in flows/."""
    found = []
    for file in sorted(FLOWS.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reached":
                assert isinstance(node.args[0], ast.Constant), f"{file.name}: a step needs a plain name"
                found.append(str(node.args[0].value))
    return tuple(found)
