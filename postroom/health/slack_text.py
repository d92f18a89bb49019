"""Incidents as Slack messages. Words of strangers go into plain text elements, or are escaped: they can neither
format, link, nor call anybody."""

from __future__ import annotations

from typing import Any

from postroom.errors import sanitise
from postroom.health.incidents import Incident

MARKS = {"critical": "🔴", "warning": "🟠"}
LONGEST = 2900  # Slack takes 3000 characters of a text element


def escape(text: str, limit: int = LONGEST) -> str:
    """The text, safe inside Slack's mrkdwn: no mention, no link, no code, in one piece."""
    kept = "".join(c for c in sanitise(text, addresses=True, limit=limit) if c in "\n\t" or c.isprintable())
    for sign, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("`", "'")):
        kept = kept.replace(sign, harmless)
    for sign in "*_~":  # a word joiner before it, and it formats nothing
        kept = kept.replace(sign, f"\u2060{sign}")
    return kept


def plain(text: str, limit: int = LONGEST) -> dict[str, Any]:
    """A plain text element: Slack shows it as it is."""
    kept = "".join(c for c in sanitise(text, addresses=True, limit=limit) if c in "\n\t" or c.isprintable())
    return {"type": "plain_text", "text": kept[: limit + 50] or "–", "emoji": False}


def headline(incident: Incident) -> str:
    mark = "✅" if incident.over else MARKS.get(incident.trouble.severity, "🔴")
    return f"{mark} {'Recovered: ' if incident.over else ''}{incident.trouble.title}"


def blocks(incident: Incident) -> list[dict[str, Any]]:
    """The message in Block Kit."""
    stamp = f"<!date^{incident.begun_at // 1000}^{{date_num}} {{time_secs}}|at {incident.begun_at // 1000}>"
    until = ""
    if incident.ended_at is not None:
        until = f" until <!date^{incident.ended_at // 1000}^{{time_secs}}|{incident.ended_at // 1000}>"
    said = f"{escape(incident.trouble.key, 200)} · since {stamp}{until}"
    found: list[dict[str, Any]] = [{"type": "header", "text": plain(headline(incident)[:140], 140)}]
    if incident.trouble.detail:
        found.append({"type": "section", "text": plain(incident.trouble.detail)})
    found.append({"type": "context", "elements": [{"type": "mrkdwn", "text": said, "verbatim": True}]})
    return found
