"""A mail as a page of an Astro site, as it was written.

An Astro file is code. So nobody's text stands in it as markup: all of it goes into string
constants of the frontmatter, where only letters, digits and harmless signs stay as they are, and
Astro itself escapes it again when it shows it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from postroom.agent.job import Instruction, Medium
from postroom.agent.prompt import clean

_HARMFUL = re.compile(r"[^\w .,;:!?()@+=%#*~|\^\[\]'/\x80-\U0010ffff-]|--|//|/\*|[\u2028\u2029]")
_PLAIN_PATH = re.compile(r"src/assets/[A-Za-z0-9][A-Za-z0-9._@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._@+-]*)*")
_REPLY = re.compile(r"^(?:(?:re|fwd?|aw|wg|sv|vs|antw|rif|tr|odp)\s*:\s*)+", re.IGNORECASE)
_FOLDED = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "o", "å": "a", "ł": "l", "đ": "d", "œ": "oe"}
_TITLE, _SUMMARY = 120, 200


def literal(text: str) -> str:
    """The text as a string constant of JavaScript in which nothing can end the string, the code or the element."""
    escaped = _HARMFUL.sub(lambda found: "".join(f"\\u{ord(c):04x}" for c in found[0]), text)
    return f'"{escaped}"'


def title_of(one: Instruction) -> str:
    """The subject, as a headline."""
    title = " ".join(_REPLY.sub("", " ".join(clean(one.subject).split())).split())
    return _shortened(title, _TITLE) or f"A letter of {one.received:%-d %B %Y}"


def slug_of(title: str) -> str:
    """The title as a name for a file and a path."""
    folded = "".join(_FOLDED.get(c, c) for c in title.casefold())
    ascii_only = unicodedata.normalize("NFKD", folded).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:60].strip("-") or "letter"


def paragraphs_of(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", clean(text)) if part.strip()]


def summary_of(one: Instruction) -> str:
    """The first words of the text."""
    return _shortened(" ".join(clean(one.text).split()), _SUMMARY)


def alt_of(medium: Medium, title: str) -> str:
    """What can honestly be said about a picture nobody looked at: its name, or the headline it belongs to."""
    words = re.sub(r"[_-]+", " ", PurePosixPath(clean(medium.filename)).stem).strip()
    return title if not words or re.fullmatch(r"(?i)(?:img|dsc|image|photo|pxl|screenshot)?[ \d.()]*", words) else words


@dataclass(frozen=True)
class Layout:
    """How the site wants its pages: the component's file, and whether it shows a letter all by itself."""

    path: str | None = None
    shows_letters: bool = False


def render(one: Instruction, page: str, layout: Layout, mark: str) -> str:
    """The source of the page at `page`; pictures and documents whose path is not plain are left out."""
    title = title_of(one)
    pictures = [m for m in one.media if m.kind == "image" and usable(m)]
    documents = [m for m in one.media if m.kind == "document" and usable(m)]
    code = [f"// letter {mark}"]
    if layout.path:
        code.append(f"import Layout from {_import(page, layout.path)};")
    for n, picture in enumerate(pictures, 1):
        if picture.fallback:  # one without moves, and comes as it is
            code.append(f"import avif{n} from {_import(page, picture.path)};")
        code.append(f"import plain{n} from {_import(page, picture.fallback or picture.path)};")
    code += [f"import document{n} from {_import(page, m.path, '?url')};" for n, m in enumerate(documents, 1)]
    code += [
        "",
        f"const title = {literal(title)};",
        f'const date = "{one.received:%Y-%m-%d}";',
        f"const text = {_list([literal(p) for p in paragraphs_of(one.text)])};",
        f"const pictures = {_list([_picture(n, m, title) for n, m in enumerate(pictures, 1)])};",
        f"const documents = {_list([_document(n, m) for n, m in enumerate(documents, 1)])};",
    ]
    return "---\n" + "\n".join(code) + "\n---\n\n" + _body(layout)


def usable(medium: Medium) -> bool:
    """Can the path stand in an import?"""
    paths = [medium.path] + ([medium.fallback] if medium.fallback else [])
    return all(_PLAIN_PATH.fullmatch(path) and ".." not in path for path in paths)


def _import(page: str, path: str, suffix: str = "") -> str:
    up = "../" * (len(PurePosixPath(page).parts) - 2)  # both lie in src/
    return json.dumps(f"{up}{path.removeprefix('src/')}{suffix}")


def _list(items: Sequence[str]) -> str:
    return "[" + "".join(f"\n  {item}," for item in items) + ("\n]" if items else "]")


def _picture(n: int, medium: Medium, title: str) -> str:
    size = f", width: {int(medium.width)}, height: {int(medium.height)}" if medium.width and medium.height else ""
    avif = f"avif: avif{n}, " if medium.fallback else ""
    return f"{{ {avif}plain: plain{n}, alt: {literal(alt_of(medium, title))}{size} }}"


def _document(n: int, medium: Medium) -> str:
    return f"{{ href: document{n}, name: {literal(clean(medium.filename, limit=200))} }}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


_LETTER = """\
<article>
  <h1>{title}</h1>
  <p><time datetime={date}>{date}</time></p>
  {text.map((paragraph) => <p style="white-space: pre-line">{paragraph}</p>)}
  {
    pictures.map((picture) => (
      <picture>
        {picture.avif && <source srcset={picture.avif.src} type="image/avif" />}
        <img
          src={picture.plain.src}
          alt={picture.alt}
          width={picture.width}
          height={picture.height}
          style="max-width: 100%; height: auto"
          loading="lazy"
        />
      </picture>
    ))
  }
  {documents.map((document) => <p><a href={document.href} download={document.name}>{document.name}</a></p>)}
</article>
"""


def _body(layout: Layout) -> str:
    if layout.shows_letters:
        return "<Layout {title} {date} {text} {pictures} {documents} />\n"
    if layout.path:
        return f"<Layout {{title}}>\n{_LETTER}</Layout>\n"
    head = '<meta charset="utf-8" />\n<meta name="viewport" content="width=device-width" />\n<title>{title}</title>\n'
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}</head>\n<body>\n{_LETTER}</body>\n</html>\n'
