"""Whether Microsoft Graph is set up in the settings, and how."""

from __future__ import annotations

from postroom.errors import Misconfigured
from postroom.meetings.microsoft import Access
from postroom.settings import Settings

_WANTED = ("graph_tenant", "graph_client_id", "graph_client_secret", "graph_organizer")


def access_of(settings: Settings) -> Access | None:
    """The way into the calendar; None when nothing of it is set. Half of it is an error that names the rest."""
    unset = [name for name in _WANTED if not getattr(settings, name)]
    if len(unset) == len(_WANTED):
        return None
    if unset:
        missing = ", ".join(f"POSTROOM_{name.upper()}" for name in unset)
        raise Misconfigured(f"Microsoft Graph is half set up: {missing} is missing (set all of it, or nothing)")
    tenant, client_id, client_secret, organizer = (getattr(settings, name) for name in _WANTED)
    return Access(
        tenant,
        client_id,
        client_secret,
        organizer,
        api=settings.graph_url,
        login=settings.graph_login_url,
    )
