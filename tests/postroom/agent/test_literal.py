"""Without a key: mails go onto the site as written, tasks get an example, and both say so."""

import json
from datetime import UTC, datetime

import pytest

from postroom.agent.answer import mismatch
from postroom.agent.briefs import EDIT_SCHEMA, edit_job, task_job
from postroom.agent.example import example_of
from postroom.agent.job import Medium
from postroom.agent.page import literal, slug_of, title_of
from postroom.agent.run import run
from postroom.errors import BadInput

PHOTO = Medium("apple tree.jpg", "image", "src/assets/mail/a/m.avif", "src/assets/mail/a/m.jpg", 1600, 1200)
PAPER = Medium("Prices “2026”.pdf", "document", "src/assets/mail/p/prices.pdf")


def _edit(workspace, *letters):
    return edit_job(workspace, letters, site="garden", correlation="edit:garden:1")


async def test_a_mail_becomes_a_page_and_a_line_in_the_news(letter, workspace):
    (workspace / "src/data").mkdir()
    old = {"title": "Old", "date": "2026-01-01", "href": "/news/old/", "summary": ""}
    (workspace / "src/data/news.json").write_text(json.dumps([old]))
    lines: list[str] = []

    one = letter("Re: Summer hours", "We open at nine.\n\nCome early!", media=(PHOTO, PAPER))
    result = await run(_edit(workspace, one), driver="literal", on_line=lines.append)

    assert result.outcome == "done"
    assert mismatch(result.output, EDIT_SCHEMA) == ""
    assert result.output["pages"] == ["/news/summer-hours/"]
    assert "No agent worked on this" in result.output["summary"]
    assert "as it was written" in result.note
    page = (workspace / "src/pages/news/summer-hours.astro").read_text()
    assert 'const title = "Summer hours";' in page
    assert '"We open at nine."' in page
    assert 'from "../../assets/mail/a/m.avif"' in page
    assert "<picture>" in page
    assert 'from "../../assets/mail/p/prices.pdf?url"' in page
    news = json.loads((workspace / "src/data/news.json").read_text())
    assert [item["title"] for item in news] == ["Summer hours", "Old"]
    assert news[0] == {
        "title": "Summer hours",
        "date": "2026-07-01",
        "href": "/news/summer-hours/",
        "summary": "We open at nine. Come early!",
    }
    assert result.output["alt_texts"] == {"src/assets/mail/a/m.avif": "apple tree"}
    assert [call.name for call in result.trace.calls] == ["Write", "Write"]
    assert all(line.startswith("[edit:garden:1] ") for line in lines)


async def test_letters_are_put_in_order_and_the_same_one_only_once(letter, workspace):
    first = letter("News", "one", message_id="a", received=datetime(2026, 7, 1, tzinfo=UTC))
    second = letter("News", "two", message_id="b", received=datetime(2026, 7, 2, tzinfo=UTC))

    await run(_edit(workspace, second, first), driver="literal")
    again = await run(_edit(workspace, first, second), driver="literal")

    assert again.output["pages"] == ["/news/news/", "/news/news-2/"]
    assert '"one"' in (workspace / "src/pages/news/news.astro").read_text()
    assert '"two"' in (workspace / "src/pages/news/news-2.astro").read_text()
    news = json.loads((workspace / "src/data/news.json").read_text())
    assert [item["href"] for item in news] == ["/news/news-2/", "/news/news/"]


async def test_a_site_that_knows_how_to_show_letters_does_it(letter, workspace):
    (workspace / "src/layouts").mkdir()
    (workspace / "src/layouts/News.astro").write_text("<slot />")
    await run(_edit(workspace, letter()), driver="literal")
    page = (workspace / "src/pages/news/summer-hours.astro").read_text()
    assert 'import Layout from "../../layouts/News.astro";' in page
    assert page.endswith("<Layout {title} {date} {text} {pictures} {documents} />\n")


HOSTILE = [
    '"; import("node:child_process"); "',
    "`${process.env.HOME}`",
    "---\nimport x from 'fs'\n---",
    "</script><script>alert(1)</script>",
    "{Astro.request}",
    "\\u0022; evil(); \\",
    "<!-- --> --> */ /* // \u2028 x",
    "'; evil(); '",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_text_can_never_become_code(letter, workspace, text):
    await run(_edit(workspace, letter(text, text, media=(Medium(text, "document", PAPER.path),))), driver="literal")
    (page,) = (workspace / "src/pages/news").glob("*.astro")
    _, code, markup = page.read_text().split("---\n")
    assert markup.startswith(("\n<!doctype html>", "\n<Layout"))
    for line in code.splitlines():
        constant = line.partition('"')[2].rpartition('"')[0]
        assert not set(constant) & set('"`<>{}$\n') or "alt:" in line or line.startswith("import"), line
    assert "child_process" not in code or "\\u0022; import" in code


@pytest.mark.parametrize("text", HOSTILE)
def test_a_constant_means_the_text(text):
    assert json.loads(literal(text)) == text


async def test_a_path_that_is_not_plain_is_left_out_and_named(letter, workspace):
    odd = Medium("x.jpg", "image", 'src/assets/mail/"; evil.avif')
    result = await run(_edit(workspace, letter(media=(odd,))), driver="literal")
    assert "evil" not in (workspace / "src/pages/news/summer-hours.astro").read_text()
    assert "'x.jpg' could not be used" in result.output["summary"]


async def test_a_list_of_news_that_can_not_be_read_is_kept(letter, workspace):
    (workspace / "src/data").mkdir()
    (workspace / "src/data/news.json").write_text("{broken")
    result = await run(_edit(workspace, letter()), driver="literal")
    assert (workspace / "src/data/news.json").read_text() == "{broken"
    assert "could not be read" in result.output["summary"]


async def test_a_link_out_of_the_site_is_not_followed(letter, workspace, tmp_path):
    (workspace / "src/data").symlink_to(tmp_path)
    result = await run(_edit(workspace, letter()), driver="literal")
    assert (result.outcome, result.error.category) == ("failed", "validation")
    assert not (tmp_path / "news.json").exists()


@pytest.mark.parametrize(
    ("subject", "title", "slug"),
    [
        ("Re: AW: Öffnungszeiten", "Öffnungszeiten", "oeffnungszeiten"),
        ("", "A letter of 1 July 2026", "a-letter-of-1-july-2026"),
        ("Καλημέρα", "Καλημέρα", "letter"),
        ("../../etc/passwd", "../../etc/passwd", "etc-passwd"),
        ("two\r\nlines", "two lines", "two-lines"),
    ],
)
def test_a_subject_gives_a_title_and_a_name(letter, subject, title, slug):
    one = letter(subject)
    assert title_of(one) == title
    assert slug_of(title_of(one)) == slug


async def test_a_task_gets_its_recorded_example_and_is_told_so():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = await run(task_job("Count.", {}, request_id="r", schema=schema, example={"n": 7}), driver="literal")
    assert (result.outcome, result.output) == ("done", {"n": 7})
    assert "recorded example" in result.note


async def test_an_example_that_breaks_the_schema_is_no_answer():
    result = await run(task_job("Count.", {}, request_id="r", schema={"type": "array"}, example=7), driver="literal")
    assert (result.outcome, result.error.category) == ("failed", "validation")


async def test_a_task_without_schema_gets_a_plain_answer():
    result = await run(task_job("Count.", {}, request_id="r"), driver="literal")
    assert result.ok
    assert "No agent worked on this" in result.text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 20, "maxLength": 25},
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": 3, "maximum": 9},
        {"type": "integer", "exclusiveMinimum": 3, "multipleOf": 5},
        {"type": "number", "maximum": -1.5},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"enum": ["a", "b"]},
        {"const": None},
        {"type": ["null", "string"]},
        {"type": "array", "items": {"type": "object", "required": ["x"]}, "minItems": 2},
        {"anyOf": [{"type": "string", "minLength": 3}, {"type": "null"}]},
        {"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}]},
        {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "boolean"}}}]},
        {
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"const": 1}}}},
            "$ref": "#/$defs/node",
        },
        {"type": "object", "additionalProperties": {"type": "string"}},
        EDIT_SCHEMA,
        {},
    ],
)
async def test_an_example_made_from_a_schema_keeps_to_it(schema):
    assert mismatch(example_of(schema), schema) == ""


def test_a_schema_nobody_could_guess_asks_for_an_example():
    schema = {"type": "string", "pattern": "^[A-Z]{2}[0-9]{9}$"}
    with pytest.raises(BadInput, match="examples"):
        example_of(schema)
    assert example_of({**schema, "examples": ["DE123456789"]}) == "DE123456789"
