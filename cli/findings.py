"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What a checkup found, and what to do when it is not well."""

    check: str
    well: bool
    said: str
    mend: str = ""
