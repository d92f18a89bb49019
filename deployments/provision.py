"""The AWS resources as `postroom up` asks for them: `python -m deployments.provision`."""

from __future__ import annotations

import sys

from postroom.aws import provision
from postroom.errors import classify


def main() -> int:
    try:
        for step in provision.apply():
            print(f"{step.action:<10} {step.kind} {step.name} {', '.join(step.differences)}".rstrip())
    except Exception as error:
        known = classify(error)
        print(known, file=sys.stderr)
        return known.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
