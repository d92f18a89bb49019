"""The form of a message id: it names a row, a run, a folder of media and a line in a commit.

It is the last part of the mail's key in S3, so nearly everything can be one. Where only plain characters
may stand it is written as in a URL.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

MOST_BYTES = 900  # a sort key of the book holds 1024, and `:r{n}` comes behind
WANTED = f"at most {MOST_BYTES} bytes without slashes and control characters"
_FORM = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def fits(message_id: str) -> bool:
    """Whether this can be the id of a mail."""
    return bool(_FORM.fullmatch(message_id)) and len(message_id.encode()) <= MOST_BYTES


def plain(message_id: str) -> str:
    """The id in visible ASCII, fit for a key or a line of text; usually just itself."""
    told = quote(message_id, safe="._@+=,:-")
    return told.replace(".", "%2E") if told.startswith(".") or ".." in told else told


def read(plain_id: str) -> str:
    """The id that was written so."""
    return unquote(plain_id)
