"""What a machine needs besides Python packages: `python -m deployments.setup`, called by `make setup`.

As root on Debian what is missing is installed with apt; else it is named, with the command to run.
Nothing here fails for want of an optional part: whoever needs it says so when it is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """A program, the Debian package it comes in, and what is lost without it."""

    program: str
    package: str
    without: str


NEEDS = (
    Need("git", "git", "sites can't be edited"),
    Need("bwrap", "bubblewrap", "agents and builds can't be confined, and edits are refused"),
    Need("setpriv", "util-linux", "an agent may outlive the run that started it"),
)


def missing() -> list[Need]:
    """The needs that this machine does not meet."""
    return [need for need in NEEDS if shutil.which(need.program) is None]


def _apt(packages: list[str]) -> bool:
    """Installs Debian packages; with a fresh index only when the old one will not do."""
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    for command in (install, ["apt-get", "update", "--quiet"], install):
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if command is install and done.returncode == 0:
            return True
    print(done.stderr.strip()[-1000:], file=sys.stderr)
    return False


def _say(line: str) -> None:
    print(f"setup: {line}", file=sys.stderr)


def main() -> None:
    """Sees to every need and names those that stay unmet."""
    lacking = missing()
    if lacking and os.geteuid() == 0 and shutil.which("apt-get"):
        _say(f"installing {', '.join(need.package for need in lacking)}")
        _apt(sorted({need.package for need in lacking}))
        lacking = missing()
    for need in lacking:
        _say(f"{need.program} is missing: {need.without}. To mend: apt-get install {need.package}")


if __name__ == "__main__":
    main()
