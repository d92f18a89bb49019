"""Mail that nobody wrote to us: auto-replies, bounces, lists, ourselves. It is never answered."""

from __future__ import annotations

import re

from postroom.mail.fields import Fields

LOOP_GUARD = "X-Postroom-Loop"

_MACHINES = re.compile(r"^(mailer-daemon|postmaster|mail-daemon|bounces?|double-bounce)([+=-].*)?@", re.I)
_AWAY = re.compile(
    r"^\s*(automatic reply|auto(?:matic)?[- ]?repl(?:y|ies)|autoreply|out of (?:the )?office|abwesenheitsnotiz|"
    r"automatische antwort|abwesend|réponse automatique|absence du bureau|respuesta automática|fuera de la oficina|"
    r"risposta automatica|fuori sede|automatisch antwoord|afwezigheidsbericht|resposta automática|autosvar|"
    r"automatiskt svar|automatisk svar|fraværsbesked|odpowiedź automatyczna|automaattinen vastaus)\b\s*[:：\[]",
    re.I,
)


def reason(fields: Fields, content_type: str, sender: str | None, subject: str, ours: str | None) -> str | None:
    """Why this mail needs no answer, in plain words; None when a person seems to have written it."""
    if fields.first(LOOP_GUARD) is not None:
        return "it was sent by this post room"
    if ours and sender and sender.lower() == ours.lower():
        return "it comes from our own address"
    submitted = fields.text("auto-submitted").split(";")[0].split("(")[0].strip().lower()
    if submitted and submitted != "no":
        return f"it was sent automatically ({submitted[:40]})"
    if content_type == "multipart/report":
        return "it is a delivery report"
    # the topmost counts: the receiving host writes it
    if (path := fields.first("return-path")) is not None and path.strip() in ("<>", "< >"):
        return "it is a bounce: its return path is empty"
    if sender and _MACHINES.match(sender):
        return "it comes from a mail system"
    for name in ("list-id", "list-post", "list-unsubscribe", "mailing-list", "x-mailing-list"):
        if fields.text(name):
            return "it comes from a mailing list"
    if fields.text("precedence").lower() in ("bulk", "list", "junk", "auto_reply", "auto-reply"):
        return f"it is bulk mail (Precedence: {fields.text('precedence').lower()})"
    suppress = fields.text("x-auto-response-suppress").lower()
    if any(word in suppress for word in ("all", "oof", "autoreply")):
        return "it asks for no answers"
    for name in ("x-autoreply", "x-autorespond", "x-autoresponder", "x-auto-reply-from", "x-mail-autoreply"):
        if fields.text(name).lower() not in ("", "no", "false"):
            return "it was sent automatically"
    if _AWAY.match(subject):
        return "its subject is that of an automatic reply"
    return None
