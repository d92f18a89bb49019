"""Options that several of the verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

ChangeId = Annotated[str, typer.Argument(metavar="ID", help="The changeId.")]
By = Annotated[str | None, typer.Option("--by", help="Who does it; else the document's modifiedBy, or your login.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until every customer's run has ended.")]
WaitSeconds = Annotated[float, typer.Option("--wait-seconds", help="How long to wait at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, say what would be written, write nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
