"""What the literal driver wrote, built by the real Astro: all of it shows as text."""

import html
import shutil

import pytest
import pyvips

from postroom.agent.briefs import edit_job
from postroom.agent.job import Medium
from postroom.agent.page import title_of
from postroom.agent.run import run
from postroom.sites.build import build
from tests.postroom.agent.test_literal import HOSTILE


@pytest.mark.parametrize("layouts", ["the sample site's", "none"])
async def test_hostile_letters_show_as_text_with_their_pictures(
    letter, garden_export, packages, open_directory, layouts
):
    site = garden_export()
    if layouts == "none":
        shutil.rmtree(site / "src")
        (site / "src/pages").mkdir(parents=True)
        (site / "src/pages/index.astro").write_text("<h1>Home</h1>\n")
    laid = site / "src/assets/mail/a"
    laid.mkdir(parents=True)
    picture = pyvips.Image.black(160, 120, bands=3).copy(interpretation="srgb")
    picture.write_to_file(str(laid / "m.avif"))
    picture.write_to_file(str(laid / "m.jpg"))
    (laid / "p.pdf").write_bytes(b"%PDF-1.4 " + b"x" * 10_000)
    media = (
        Medium("tree.jpg", "image", "src/assets/mail/a/m.avif", "src/assets/mail/a/m.jpg", 160, 120),
        Medium('"; evil()<b>`${x}`.pdf', "document", "src/assets/mail/a/p.pdf"),
    )
    letters = [letter(text, text, message_id=f"m{n}", media=media) for n, text in enumerate(HOSTILE)]

    result = await run(edit_job(site, letters, site="garden", correlation="edit:garden:1"), driver="literal")
    assert result.ok, result.error
    built = await build(site, packages, open_directory / "dist")

    assert built.tried == ()
    for href, one in zip(result.output["pages"], letters, strict=True):
        page = (built.dist / href.strip("/") / "index.html").read_text()
        assert title_of(one) in html.unescape(page)
        assert "<b>`$" not in page.split("<body", 1)[1].replace('download="&quot;; evil()<b>`${x}`.pdf"', "")
        assert "<script>alert" not in page.split("<body", 1)[1]
        assert 'type="image/avif"' in page
        assert ".pdf" in page
