"""What our answers say: what was done, what was left out, what to do next. Words of others are only ever quoted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from postroom.errors import sanitise
from postroom.mail.compose import Envelope, answer
from postroom.mail.letter import Letter
from postroom.mail.trust import Decision
from postroom.mail.words import one_line
from postroom.mail.writing import Enclosure

SCREENSHOT = "page@postroom"
MAX_LISTED = 100
MAX_SUMMARY = 6000
UNSEEN = (
    "Your mail was carried out, but the edit site could not be brought up to date: it still shows the older version. "
    "The change will be seen there with the next one."
)
_LINK = re.compile(r"https?://[^\s<>\"'\x00-\x20]+", re.I)


@dataclass(frozen=True)
class Earlier:
    """An earlier instruction that this edit carried out too."""

    subject: str
    instruction: str


@dataclass(frozen=True)
class Done:
    """What an edit did, as its answer tells it."""

    summary: str
    edit_url: str | None = None
    pages: Sequence[str] = ()
    left_out: Sequence[str] = ()  # each: what, and why
    absorbed: Sequence[Earlier] = ()
    questions: Sequence[str] = ()
    remarks: Sequence[str] = ()  # such as: the text was put onto the site as written
    screenshot: bytes | None = None
    finished: bool = True  # False: turns or money ran out; what was done so far is kept
    published_url: str | None = None  # set when this was a "publish"


def done(envelope: Envelope, told: Done, *, sender: str, now: datetime | None = None) -> bytes:
    """The answer after an edit, an undo or a publish."""
    page = _Page()
    if not told.finished:
        page.say(
            "This is not finished: a limit was reached. What was done so far is kept, but it is not on the site yet. "
            "Answer this mail to have it carried on."
        )
    page.say(_clean(told.summary, MAX_SUMMARY) or "Your mail was carried out.")
    page.listed("Pages touched", told.pages)
    if told.published_url:
        page.link("Published at", told.published_url)
    elif told.edit_url and told.finished:
        page.link("See it on the edit site", told.edit_url)
    if told.screenshot:
        page.picture(SCREENSHOT, "The page as it looks now")
    page.listed("Please tell us", told.questions)
    page.listed("Left out", told.left_out)
    page.listed("Earlier mails that were carried out too", [_earlier(item) for item in told.absorbed])
    for remark in told.remarks:
        page.say(_clean(remark, 500))
    if told.finished and not told.published_url:
        page.say('Answer "publish" to put this on the public site, or "undo" to take the last change back.')
    elif told.published_url:
        page.say('Answer "undo" to take the last change back from the edit site.')
    enclosures = [Enclosure("page.png", told.screenshot, SCREENSHOT)] if told.screenshot else []
    return answer(envelope, sender=sender, text=page.text(), html=page.html(), enclosures=enclosures, now=now)


def failed(envelope: Envelope, *, sender: str, reference: str, why: str, now: datetime | None = None) -> bytes:
    """The answer after a failure: honest, without details; `why` is an error's `safe_message`."""
    page = _Page()
    page.say("Sorry, your mail could not be carried out. The site is as it was before.")
    page.say(_clean(why, 500))
    page.say(f"Your mail is kept, and we can look this up by its reference: {_clean(reference, 100)}")
    page.say("You need not send it again unless we ask you to.")
    return answer(envelope, sender=sender, text=page.text(), html=page.html(), now=now)


def unseen(envelope: Envelope, *, sender: str, reference: str, why: str, now: datetime | None = None) -> bytes:
    """The answer when the change is made, but the edit site could not be brought up to date."""
    page = _Page()
    page.say(UNSEEN)
    page.say(_clean(why, 500))
    page.say(f"We can look this up by its reference: {_clean(reference, 100)}")
    page.say("You need not send it again.")
    return answer(envelope, sender=sender, text=page.text(), html=page.html(), now=now)


def refused(envelope: Envelope, *, sender: str, project: str, now: datetime | None = None) -> bytes:
    """The one answer to a genuine sender who is not on the site's list."""
    page = _Page()
    page.say(f"Thank you for your mail. It was not carried out: {envelope.to} may not change the site {project}.")
    page.say("If you should, ask whoever looks after the site to add your address to its senders, and send it again.")
    return answer(envelope, sender=sender, text=page.text(), html=page.html(), now=now)


def reason_document(
    message_id: str,
    *,
    code: str,
    reason: str,
    letter: Letter | None = None,
    decision: Decision | None = None,
    at: datetime | None = None,
) -> dict[str, Any]:
    """What is stored beside a quarantined mail: why it was refused, and what its header claims."""
    claims: Mapping[str, Any] = {}
    if letter is not None:
        claims = {
            "from": letter.from_,
            "to": letter.to[:20],
            "subject": letter.subject[:300],
            "project": letter.project,
            "user": letter.user,
            "authentication": dict(letter.authentication),
            "warnings": letter.warnings[:50],
        }
    when = (at or datetime.now(UTC)).astimezone(UTC)
    return {
        "message_id": message_id,
        "at": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "code": code,
        "reason": sanitise(one_line(reason), limit=2000),
        "may_answer": decision.may_answer if decision else False,
        "claims": claims,
    }


def _clean(text: str, limit: int) -> str:
    """Someone else's words, fit to be shown: no control or bidi characters, no secrets, bounded."""
    kept = "".join(c for c in text.replace("\r\n", "\n").replace("\t", " ") if c == "\n" or c.isprintable())
    return sanitise(kept.strip(), limit=limit)


def _earlier(item: Earlier) -> str:
    said = one_line(item.instruction)
    return f"{one_line(item.subject) or '(no subject)'}: {said[:160]}{'…' if len(said) > 160 else ''}"


class _Page:
    """One answer, grown as text and as HTML side by side."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._html: list[str] = []

    def say(self, words: str) -> None:
        if not words:
            return
        self._text.append(words)
        self._html.append("<p>" + escape(words).replace("\n", "<br>\n") + "</p>")

    def listed(self, title: str, items: Sequence[str]) -> None:
        shown = [_clean(one_line(item), 500) for item in items[:MAX_LISTED]]
        if len(items) > MAX_LISTED:
            shown.append(f"… and {len(items) - MAX_LISTED} more")
        if shown:
            self._text.append(f"{title}:\n" + "\n".join(f"- {item}" for item in shown))
            self._html.append(
                f"<p>{escape(title)}:</p>\n<ul>" + "".join(f"<li>{escape(i)}</li>" for i in shown) + "</ul>"
            )

    def link(self, title: str, url: str) -> None:
        if not _LINK.fullmatch(url):  # the work is done and must be told of, with a link or without
            return
        self._text.append(f"{title}:\n{url}")
        self._html.append(f'<p>{escape(title)}:<br>\n<a href="{escape(url)}">{escape(url)}</a></p>')

    def picture(self, content_id: str, alt: str) -> None:
        self._html.append(f'<p><img src="cid:{escape(content_id)}" alt="{escape(alt)}" style="max-width:100%"></p>')

    def text(self) -> str:
        return "\n\n".join(self._text) + "\n"

    def html(self) -> str:
        style = "font-family:system-ui,sans-serif;font-size:16px;line-height:1.5;color:#222;max-width:40em"
        head = '<!doctype html>\n<html><head><meta charset="utf-8"></head>'
        return "\n".join([head, f'<body style="{style}">', *self._html, "</body></html>", ""])
