"""HTML as a person reads it: text with line breaks, list marks, quotes; one pass, never quadratic."""

from __future__ import annotations

import html
import re

MAX_CHARACTERS = 2_000_000

_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "html",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
        "caption",
    ]
)
_SPACED = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "pre", "table", "blockquote"])
_SKIPPED = frozenset(
    # not the head: it may lack its end, and whatever else of it holds words is here by itself
    ["script", "style", "title", "noscript", "template", "svg", "math", "object", "iframe", "select", "xml"]
)
_OPENS = re.compile(r"<(?=/?[a-zA-Z]|[!?])")  # any other `<` is a word, however many there are
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:-]*)")
_ATTRIBUTE = re.compile(r"""\b(href|alt)\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""", re.I)
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")


def to_text(source: str, limit: int = MAX_CHARACTERS) -> str:
    """Readable text of an HTML body: quotes begin with `> `, list items with `- `, links show where they lead."""
    page = _Page()
    source = source[:limit]
    patience = 20  # for tags that don't end outside quotes: each is looked for far ahead
    position, end = 0, len(source)
    while position < end:
        found = _OPENS.search(source, position)
        if found is None:
            page.words(source[position:])
            break
        opened = found.start()
        if opened > position:
            page.words(source[position:opened])
        if source.startswith("<!--", opened):
            close = source.find("-->", opened + 4)
            position = close + 3 if close >= 0 else end
            continue
        name = _TAG.match(source, opened)
        plain = source.find(">", opened)
        outside = _tag_end(source, opened, plain) if patience else plain
        patience -= outside is None
        close = plain if outside is None else outside
        if close < 0:
            if name is None:
                page.words(source[opened:])
            break
        if name is not None:
            tag = name[1].lower()
            if source[opened + 1] == "/":
                page.close(tag)
            else:
                page.open(tag, source[name.end() : close])
                if tag in ("script", "style") and source[close - 1] != "/":
                    # raw text: nothing in it is a tag but its own end
                    ends = re.compile(rf"</{tag}", re.I).search(source, close)
                    position = ends.start() if ends else end
                    continue
        position = close + 1
    return page.text()


def _tag_end(source: str, opened: int, plain: int) -> int | None:
    """Where the tag ends, whose first `>` is at `plain`: one in quotes does not count. None when none is outside."""
    if plain < 0 or ('"' not in source[opened:plain] and "'" not in source[opened:plain]):
        return plain
    found = re.compile(r"""(?:[^>"']|"[^"]{0,100000}"|'[^']{0,100000}')*?>""").match(source, opened, opened + 200_000)
    return found.end() - 1 if found else None


class _Page:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.line: list[str] = []
        self.blank = False
        self.depth = 0  # of blockquotes
        self.skip = ""  # the tag whose content is left out
        self.skips = 0  # how often it was opened inside itself, and once
        self.anchor: tuple[str, int] | None = None  # the open link: where it leads, where it began
        self.pre = 0

    def words(self, raw: str) -> None:
        if self.skip:
            return
        text = html.unescape(raw)
        if self.pre:
            first, *rest = text.replace("\r\n", "\n").split("\n")
            self.line.append(first)
            for piece in rest:
                self.flush(keep=True)
                self.line.append(piece)
            return
        text = _SPACE.sub(" ", text)
        if text == " " and not self.line:
            return
        self.line.append(text)

    def flush(self, *, keep: bool = False) -> None:
        text = "".join(self.line)
        text = text.rstrip() if self.pre or keep else re.sub(r" {2,}", " ", text).strip()
        self.line = []
        if text or keep:
            mark = "> " * min(self.depth, 10)
            if self.blank and self.lines:
                self.lines.append(mark.rstrip())
            self.blank = False
            self.lines.append((mark + text).rstrip())

    def open(self, tag: str, inside: str) -> None:
        void = inside.endswith("/")
        if tag == "body":
            self.skip = ""  # whatever was left open before it
        if self.skip:
            self.skips += tag == self.skip and not void
            return
        if tag in _SKIPPED:
            if not void:
                self.skip, self.skips = tag, 1
            return
        given = {k.lower(): v.strip("\"'") for k, v in _ATTRIBUTE.findall(inside[:20_000])} if inside.strip() else {}
        if tag == "br":
            self.flush(keep=True)
        elif tag == "img":
            if alt := _SPACE.sub(" ", html.unescape(given.get("alt", ""))).strip():
                self.line.append(f"[{alt}]")
        elif tag == "a":
            self.end_link()
            self.anchor = html.unescape(given.get("href", "")).strip(), len(self.line)
        elif tag in ("td", "th"):
            if self.line:
                self.line.append(" ")
        elif tag in _BLOCKS:
            self.flush()
            self.blank = self.blank or tag in _SPACED
            if tag == "blockquote":
                self.depth += 1
            elif tag == "li":
                self.line.append("- ")
            elif tag == "pre":
                self.pre += 1
            elif tag == "hr":
                self.line.append("---")
                self.flush()

    def close(self, tag: str) -> None:
        if self.skip:
            self.skips -= tag == self.skip
            if not self.skips:
                self.skip = ""
            return
        if tag == "a":
            self.end_link()
        elif tag in _BLOCKS:
            self.flush()
            if tag == "blockquote":
                self.depth = max(0, self.depth - 1)
            elif tag == "pre":
                self.pre = max(0, self.pre - 1)
            self.blank = self.blank or tag in _SPACED

    def end_link(self) -> None:
        """Say where the open link leads, unless its words say so; a link ends where the next begins."""
        if self.anchor is None:
            return
        href, since = self.anchor
        self.anchor = None
        shown = "".join(self.line[since:]).strip() if since <= len(self.line) else ""
        address = re.sub(r"^(?:mailto:|https?://)", "", href).rstrip("/")
        if href.lower().startswith(("http://", "https://", "mailto:")) and shown and address not in shown:
            self.line.append(f" ({href})")

    def text(self) -> str:
        self.flush()
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)).strip()
