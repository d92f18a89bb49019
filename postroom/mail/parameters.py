"""Values with parameters, as in Content-Type and Content-Disposition (RFC 2045, 2231 and what mailers make of it)."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from postroom.mail import charsets
from postroom.mail.words import decode_words, one_line, unfold

MAX_PARAMETERS = 100
_SECTION = re.compile(r"^(.*?)(?:\*(\d{1,3}))?(\*)?$")


def parse(value: str) -> tuple[str, dict[str, str]]:
    """The value in lower case without its comments, and its parameters decoded, names in lower case."""
    pieces = _pieces(unfold(value))
    head = pieces[0][0].strip().lower() if pieces else ""
    plain: dict[str, str] = {}
    sections: dict[str, dict[int, tuple[str, bool]]] = {}
    for piece, quoted in pieces[1 : MAX_PARAMETERS + 1]:
        name, equals, text = piece.partition("=")
        name = name.strip().lower()
        if not equals or not name:
            continue
        text = text if quoted else text.strip()
        match = _SECTION.match(name)
        if match is None or (match[2] is None and match[3] is None):
            plain.setdefault(name, text)
        else:
            sections.setdefault(match[1], {}).setdefault(int(match[2] or 0), (text, bool(match[3])))
    found = {name: one_line(decode_words(text)) for name, text in plain.items()}
    # an RFC 2231 name is the better one when both are there
    found.update({name: text for name, parts in sections.items() if (text := _joined(parts))})
    return head, found


def _joined(parts: dict[int, tuple[str, bool]]) -> str:
    charset: str | None = None
    data = b""
    for number in sorted(parts):
        text, encoded = parts[number]
        if encoded:
            if charset is None and text.count("'") >= 2:
                charset, _, text = text.split("'", 2)
            data += unquote_to_bytes(text)
        else:
            data += text.encode("utf-8", "replace")
    text = charsets.decode(data, charset)[0]
    # some mailers put encoded words into RFC 2231 sections
    return one_line(decode_words(text))


def _pieces(value: str) -> list[tuple[str, bool]]:
    """The value cut at its semicolons; quotes and comments are honoured and taken off."""
    pieces: list[tuple[str, bool]] = []
    out: list[str] = []
    quoted = was_quoted = escaped = assigned = False
    depth, last, last_close = 0, "", value.rfind(")")
    for index, ch in enumerate(value):
        if escaped:
            escaped = False
            if not depth:
                # `C:\\dir\\file`: a backslash that escapes nothing special is part of the name
                out.append(ch if ch in '"\\' else "\\" + ch)
            continue
        if ch == "\\" and (quoted or depth):
            escaped = True
        elif depth:
            depth += (ch == "(") - (ch == ")")
        elif ch == '"' and (quoted or last in ("", "=")):
            quoted = not quoted
            was_quoted, last = True, ch
        elif quoted:
            out.append(ch)
        elif ch == "(" and not assigned and index < last_close:
            # only before the `=`: `name=a (1).pdf` unquoted is far more common than a comment there
            depth = 1
        elif ch == ";":
            pieces.append(("".join(out), was_quoted))
            out, was_quoted, assigned, last = [], False, False, ""
        else:
            out.append(ch)
            assigned = assigned or ch == "="
            last = last if ch in " \t" else ch
    text = "".join(out)
    if quoted and (cut := re.search(r";\s*[A-Za-z*0-9-]+=", text)):
        # the closing quote is missing: the value ends where the next parameter begins
        text = text[: cut.start()]
    pieces.append((text, was_quoted))
    return pieces
