"""SVG as a harmless document: only drawing elements, no scripts, no way out of the file. Never rasterised."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET  # builds and writes; reading goes through defusedxml

from defusedxml import ElementTree as safe
from defusedxml.common import DefusedXmlException

from postroom.media.kinds import as_text
from postroom.media.opening import Unusable

SVG, XLINK, XML = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/XML/1998/namespace"
_NAMES = """
svg g defs symbol use title desc path rect circle ellipse line polyline polygon text tspan textPath image
linearGradient radialGradient stop pattern clipPath mask marker filter switch style view animate animateTransform
animateMotion mpath set feBlend feColorMatrix feComponentTransfer feComposite feConvolveMatrix feDiffuseLighting
feDisplacementMap feDistantLight feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feImage feMerge
feMergeNode feMorphology feOffset fePointLight feSpecularLighting feSpotLight feTile feTurbulence
"""
_DRAWING = frozenset(_NAMES.split())
_UNWRAPPED = frozenset({"a"})  # a link goes, what it shows stays
_HREFS = frozenset({"href", f"{{{XLINK}}}href"})
_FOREIGN_ATTRIBUTES = frozenset({f"{{{XLINK}}}href", f"{{{XML}}}space", f"{{{XML}}}lang"})
_TEXTUAL = frozenset({"d", "id", "class", "lang", "role", "title", "points", "viewBox", "systemLanguage"})
_EMBEDDED = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/=\s]*\Z", re.I)
_URL = re.compile(r"url\(\s*+(['\"]?)(?!\s*['\"]?#)[^)]*\)?", re.I)
# ways to fetch or to hide fetching that need no url(); a backslash can spell any of them
_CSS_TRAPS = re.compile(r"\\|@import|@charset|@namespace|image\s*\(|image-set|cross-fade|src\s*\(|expression\s*\(|"
                        r"javascript:|-moz-binding|behavior\s*:|</", re.I)  # fmt: skip
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*+(?:\[(?P<inside>[^\]]*+)(?:\]\s*+|\Z))?>?", re.S | re.I)
_ENTITY = re.compile(r"<!ENTITY\s+([\w.-]+)\s+(?:\"([^\"&<%]{0,200})\"|'([^'&<%]{0,200})')\s*>")
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)([A-Za-z_][\w.-]*);")
_DEEPEST, _MOST = 256, 200_000
_GROWTH = 1_000_000


def sanitise(source: bytes) -> tuple[bytes, list[str]]:
    """The drawing without anything active or external, and what was taken out."""
    text = as_text(source)
    if text is None:
        raise Unusable("it is not a readable SVG (not text)")
    taken: set[str] = set()
    try:
        root = safe.fromstring(_without_doctype(text, taken), forbid_dtd=True)
    except (ET.ParseError, DefusedXmlException, ValueError) as error:
        raise Unusable(f"it is not a readable SVG ({error})") from None
    if root.tag not in (f"{{{SVG}}}svg", "svg"):
        raise Unusable("it is not an SVG drawing")
    _clean(root, taken)
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    cleaned: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    warnings = [f"taken out of the drawing: {', '.join(sorted(taken))}"] if taken else []
    return cleaned, warnings


def _without_doctype(text: str, taken: set[str]) -> str:
    """The text without DOCTYPE; plain entities, as drawing programs write them, are put in place."""
    text = re.sub(r"\A\ufeff?\s*<\?xml[^>]*\?>", "", text)  # its encoding no longer holds
    known: dict[str, str] = {}
    match = _DOCTYPE.search(text)
    if match:
        for name, double, single in _ENTITY.findall(match["inside"] or ""):
            known[name] = double or single
        if match["inside"] and len(known) != match["inside"].count("<!ENTITY"):
            taken.add("entities")
        text = text[: match.start()] + text[match.end() :]
    room = _GROWTH

    def value(reference: re.Match[str]) -> str:
        nonlocal room
        found = known.get(reference[1], "")
        room -= len(found)
        if room < 0:
            raise Unusable("its entities grow too large")
        return found

    return _REFERENCE.sub(value, text)


def _clean(root: ET.Element, taken: set[str]) -> None:
    """Walk without recursion, so that a deeply nested file can't exhaust the stack."""
    waiting, seen = [(root, 0)], 0
    while waiting:
        element, depth = waiting.pop()
        seen += 1
        if seen > _MOST or depth > _DEEPEST:
            raise Unusable("it has too many or too deeply nested elements")
        _clean_attributes(element, taken)
        if _local(element.tag) == "style":
            # a browser joins the text around whatever stands inside, and reads it as one style
            whole = "".join([element.text or "", *(child.tail or "" for child in element)])
            if len(element):
                taken.add("elements inside a style")
            element[:] = []
            element.text = _css(whole, taken)
        kept: list[ET.Element] = []
        children = list(element)[::-1]
        while children:
            child = children.pop()
            name = _local(child.tag)
            if name in _UNWRAPPED:
                taken.add("links")
                children += list(child)[::-1]
            elif name in _DRAWING and not _moves_a_link(child):
                kept.append(child)
            else:
                # what drawing programs note for themselves is no loss worth a word
                if name is not None and name != "metadata":
                    taken.add(f"<{name}>")
        element[:] = kept
        waiting.extend((child, depth + 1) for child in kept)


def _local(tag: object) -> str | None:
    """The element's name in the SVG namespace (or none), else None."""
    if not isinstance(tag, str):
        return None
    if tag.startswith(f"{{{SVG}}}"):
        return tag[len(SVG) + 2 :]
    return None if tag.startswith("{") else tag


def _moves_a_link(element: ET.Element) -> bool:
    """An animation can turn a harmless attribute into a link or a handler later."""
    target = element.get("attributeName", "").strip().lower()
    return target.endswith("href") or target.startswith("on") or target == "style"


def _clean_attributes(element: ET.Element, taken: set[str]) -> None:
    for name, value in list(element.attrib.items()):
        if name.lower().startswith("on"):
            taken.add("event handlers")
            del element.attrib[name]
        elif name in _HREFS:
            if not _stays_inside(element, value):
                taken.add("external references")
                del element.attrib[name]
        elif name.startswith("{") and name not in _FOREIGN_ATTRIBUTES:
            del element.attrib[name]
        else:
            element.attrib[name] = _css(value, taken, not _is_text(name))


def _is_text(name: str) -> bool:
    """Whether an attribute is never read as a style, so that any words may stand in it. Most others are."""
    return name in _TEXTUAL or name.startswith(("aria-", "data-", f"{{{XML}}}"))


def _stays_inside(element: ET.Element, value: str) -> bool:
    if value.strip().startswith("#"):
        return True
    return _local(element.tag) in ("image", "feImage") and bool(_EMBEDDED.match(value.strip()))


def _css(text: str, taken: set[str], style: bool = True) -> str:
    """A style or an attribute that can point nowhere but into the drawing itself."""
    plain = re.sub(r"/\*.*?(?:\*/|\Z)", "", text, flags=re.S) if style else text
    if (style and _CSS_TRAPS.search(plain)) or "javascript:" in re.sub(r"\s", "", plain).lower():
        taken.add("styles that reach outside")
        return ""
    cleaned, count = _URL.subn("none", plain)
    if count:
        taken.add("external references")
    return cleaned
