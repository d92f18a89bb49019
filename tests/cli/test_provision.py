"""`postroom provision` as a person runs it."""

import json
import subprocess
import sys
from typing import Any

from postroom.aws import provision


def postroom(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from cli.main import run; run()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_dry_run_writes_nothing_and_the_run_all_of_it(prefix: str) -> None:
    dry = postroom("provision", "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    planned: list[dict[str, Any]] = json.loads(dry.stdout)
    assert {"kind": "queue", "name": f"{prefix}-mail", "action": "create", "differences": []} in planned
    assert [step.as_json() for step in provision.plan()] == planned
    real = postroom("provision")
    assert real.returncode == 0, real.stderr
    assert f"{prefix}-mail-dlq" in real.stdout
    assert {step.action for step in provision.plan()} == {"unchanged"}


def test_an_aws_that_is_away_is_said_plainly(prefix: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    away = postroom("provision")
    assert (away.returncode, away.stdout) == (69, "")
    assert "Traceback" not in away.stderr
