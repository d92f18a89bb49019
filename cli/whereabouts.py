"""Which post room a verb talks to: `--data DIR`, else POSTROOM_DATA, else the last `up` in this checkout."""

from __future__ import annotations

import os
from pathlib import Path

from postroom.errors import Unavailable
from workers.premises import CHECKOUT, Premises, addresses, environment, forget_foreign, ports_of

DEFAULT = CHECKOUT / ".postroom"
POINTER = DEFAULT / "last-up"


def data_directory(told: Path | None = None) -> Path:
    """The data directory meant, whether or not anything is there."""
    if told:
        return told.expanduser().resolve()
    if named := os.environ.get("POSTROOM_DATA"):
        return Path(named).expanduser().resolve()
    try:
        last = Path(POINTER.read_text().strip())
    except OSError:
        return DEFAULT
    return last if last.is_dir() else DEFAULT


def remember(data: Path) -> None:
    """Makes this data directory the one that later verbs in this checkout mean."""
    if os.environ.get("POSTROOM_DATA"):
        return  # whoever sets it also sets it for the verbs
    try:
        POINTER.parent.mkdir(parents=True, exist_ok=True)
        POINTER.write_text(f"{data}\n")
    except OSError:
        pass  # a checkout that can't be written to: verbs then need --data


def enter(told: Path | None) -> None:
    """Points this process at the local post room, if one runs; what the user has set stays, unless --data is given."""
    premises = Premises(data_directory(told))
    if not premises.is_running():
        if told:
            os.environ["POSTROOM_DATA"] = str(premises.data)
        return
    if not told and (os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("PREFECT_API_URL")):
        for name, value in environment(premises.data, addresses(ports_of(premises.state()))).items():
            os.environ.setdefault(name, value)
        return
    forget_foreign()
    os.environ.update(environment(premises.data, addresses(ports_of(premises.state()))))


def require() -> None:
    """Raises, with what to do, when this process knows neither a local post room nor one in AWS."""
    if not (os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_REGION") or os.environ.get("AWS_PROFILE")):
        raise Unavailable(
            f"no post room runs on {data_directory()}. Start one with `postroom up`, name one with --data DIR, "
            "or set AWS_REGION and PREFECT_API_URL for one in AWS."
        )


def require_prefect() -> None:
    """Raises, with what to do, when this process knows no Prefect: it must not write into a throw-away one."""
    from prefect.settings import get_current_settings

    if not get_current_settings().api.url:
        raise Unavailable(
            f"no post room runs on {data_directory()}, and no Prefect is named. Start one with `postroom up`, "
            "or set PREFECT_API_URL (and PREFECT_API_KEY for Prefect Cloud)."
        )
