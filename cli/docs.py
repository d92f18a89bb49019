"""`make docs`: pages that are made from the code, so that they can't drift from it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from postroom import settings as module
from postroom.settings import PREFIX, Settings

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = """# Settings

Made from `postroom/settings.py` by `make docs`; a test fails when this page is stale.

Every setting is an environment variable. A secret may instead be a file: `POSTROOM_…_FILE` names it.
A wrong value is named, with what it should be, before anything starts. Besides these, AWS clients honour
`AWS_ENDPOINT_URL`, `AWS_REGION` and the usual credentials; Prefect honours `PREFECT_API_URL` and
`PREFECT_API_KEY`. `postroom up` sets those for its own processes.
"""


def settings_page() -> str:
    """docs/settings.md, by the groups of the class."""
    lines = [HEAD]
    for title, names in groups().items():
        lines += [f"## {title[0].upper()}{title[1:]}", "", "| variable | default | allowed | what it does |"]
        lines += ["|---|---|---|---|"]
        for name in names:
            field = Settings.model_fields[name]
            lines.append(f"| `{PREFIX}{name.upper()}` | {_default(field)} | {_allowed(field)} | {_text(field)} |")
        lines.append("")
    return "\n".join(lines)


def groups() -> dict[str, list[str]]:
    """Settings by the comment above them in the class; each is in exactly one group."""
    found: dict[str, list[str]] = {}
    title = "general"
    for line in Path(module.__file__).read_text().splitlines():
        if comment := re.fullmatch(r"    # (.+)", line):
            title = comment[1]
        elif (named := re.match(r"    ([a-z][a-z0-9_]*): ", line)) and named[1] in Settings.model_fields:
            found.setdefault(title, []).append(named[1])
    return found


def _default(field: FieldInfo) -> str:
    return "" if field.default is None or field.default == "" else f"`{field.default}`"


def _allowed(field: FieldInfo) -> str:
    kind = str(field.annotation)
    if "Literal" in kind:
        return ", ".join(f"`{word}`" for word in re.findall(r"'([^']+)'", kind))
    bounds = {type(each).__name__.lower(): each for each in field.metadata}
    said = [
        f"{sign} {getattr(bounds[name], name)}"
        for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
        if name in bounds
    ]
    kinds = {"SecretStr": "secret", "bool": "true or false", "int": "whole number", "float": "number", "Path": "path"}
    plain = next((word for name, word in kinds.items() if name in kind), "text")
    return f"{plain} {' and '.join(said)}".strip()


def _text(field: FieldInfo) -> str:
    return (field.description or "").replace("|", "\\|")


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(settings_page())
    print(f"{PAGE.relative_to(PAGE.parent.parent)} written", file=sys.stderr)


if __name__ == "__main__":
    main()
