"""A drawing from a stranger can only be looked at."""

import pytest

from postroom.media.opening import Unusable
from postroom.media.svg import sanitise

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9">'


def cleaned(inside: str, before: str = "") -> str:
    return sanitise(f"{before}{OPEN}{inside}</svg>".encode())[0].decode()


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>evil()</script>",
        "<script xlink:href='https://evil.example/x.js'/>",
        "<g onload='evil()'/>",
        "<g ONCLICK='evil()'/>",
        "<foreignObject><body xmlns='http://www.w3.org/1999/xhtml' onload='evil()'/></foreignObject>",
        "<image href='https://evil.example/pixel.png'/>",
        "<image xlink:href='//evil.example/pixel.png'/>",
        "<image href='data:image/svg+xml;base64,ZXZpbA=='/>",
        "<use href='https://evil.example/sprite.svg#a'/>",
        "<a href='javascript:evil()'><rect/></a>",
        "<a xlink:href='java&#10;script:evil()'><rect/></a>",
        "<rect fill='url(https://evil.example/f)'/>",
        "<rect style='fill:url( \"https://evil.example/f\" )'/>",
        "<rect style='background:ur\\6c(https://evil.example/)'/>",
        "<style>@import 'https://evil.example/x.css';</style>",
        "<style>rect { fill: url(//evil.example/x) }</style>",
        "<style>rect { background: image-set('https://evil.example/x' 1x) }</style>",
        "<style>@font-face { src: url(https://evil.example/font) }</style>",
        "<style>a{}<g/>@import 'https://evil.example/x.css';</style>",
        "<style>@im<g>x</g>port 'https://evil.example/x.css';</style>",
        "<style><style>@import 'https://evil.example/x.css';</style></style>",
        "<rect fill='ur\\6c(https://evil.example/)'/>",
        "<rect mask='image-set(\"https://evil.example/x\" 1x)'/>",
        "<rect cursor='src(\"https://evil.example/x\")'/>",
        "<animate attributeName='href' to='javascript:evil()'/>",
        "<set attributeName='xlink:href' to='javascript:evil()'/>",
        "<animate attributeName='onclick' to='evil()'/>",
        "<x:script xmlns:x='http://www.w3.org/2000/svg'>evil()</x:script>",
        "<h:script xmlns:h='http://www.w3.org/1999/xhtml'>evil()</h:script>",
        "<iframe src='https://evil.example'/>",
    ],
)
def test_what_could_act_or_call_out_is_taken_out(hostile: str) -> None:
    text = cleaned(f"<circle r='4'/>{hostile}")
    assert "evil" not in text.lower()
    assert "<circle" in text


def test_what_was_taken_out_is_said() -> None:
    _, warnings = sanitise(f"{OPEN}<script>evil()</script><g onload='evil()'/></svg>".encode())
    assert warnings == ["taken out of the drawing: <script>, event handlers"]


def test_a_harmless_drawing_keeps_all_it_shows() -> None:
    inside = (
        '<defs><linearGradient id="a"><stop offset="0" stop-color="red" /></linearGradient></defs>'
        '<rect width="9" height="9" fill="url(#a)" style="stroke:url(#a)" /><use href="#a" /><text>hi</text>'
        '<path id="a\\b" d="M0 0" class="x" aria-label="image (1) &lt;/" /><style>rect { fill: red }</style>'
        '<image href="data:image/png;base64,iVBORw0KGgo=" />'
    )
    text, warnings = sanitise(f"{OPEN}{inside}</svg>".encode())
    assert inside in text.decode()
    assert warnings == []


def test_the_text_of_a_link_stays() -> None:
    assert "<text>shown</text>" in cleaned("<a href='https://example.com'><text>shown</text></a>")


def test_a_doctype_goes_and_plain_entities_are_put_in_place() -> None:
    doctype = '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd" [<!ENTITY c "teal">]>'
    text = cleaned("<rect fill='&c;'/>", doctype)
    assert 'fill="teal"' in text
    assert "DOCTYPE" not in text


def test_entities_can_neither_read_files_nor_grow() -> None:
    outside = '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    assert "root:" not in cleaned("<text>&x;</text>", outside)
    laughs = '<!DOCTYPE svg [<!ENTITY a "' + "ha" * 90 + '"><!ENTITY b "&a;&a;&a;">]>'
    assert len(cleaned("<text>&b;</text>", laughs)) < 1000
    with pytest.raises(Unusable, match="grow"):
        cleaned("<text>" + "&a;" * 20_000 + "</text>", laughs)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(Unusable, match="nested"):
        cleaned("<g>" * 2000 + "</g>" * 2000)


@pytest.mark.parametrize("bad", ["<svg", "<html></html>", "", "<svg><g></svg>"])
def test_what_is_no_drawing_is_refused(bad: str) -> None:
    with pytest.raises(Unusable):
        sanitise(bad.encode())


def test_processing_instructions_and_comments_go() -> None:
    text = cleaned("<!-- evil --><g/>", '<?xml-stylesheet href="https://evil.example/x.css"?>')
    assert "evil" not in text
