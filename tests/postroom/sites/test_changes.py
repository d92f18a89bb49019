"""Which pages an edit touched, as its sender is told."""

from pathlib import Path

import pytest

from postroom.sites.changes import touched


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    for page in ("index.html", "404.html", "news/index.html", "news/anna's äpfel/index.html", "plain.html"):
        file = tmp_path / page
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    return tmp_path


def test_pages_are_known_by_their_sources_and_by_what_the_agent_says(dist: Path) -> None:
    said = ["news/anna%27s%20%C3%A4pfel", "/plain", "/not/there/", "../../etc/passwd", "http://[", 7]
    assert touched(dist, ["src/pages/index.astro", "src/data/x.json"], said, ["news/index.html"]) == [
        "/",
        "/news/anna's äpfel/",
        "/plain.html",
    ]


def test_a_change_of_data_alone_is_known_by_what_went_out(dist: Path) -> None:
    assert touched(dist, ["src/data/hours.json"], (), ["_astro/a.css", "404.html", "news/index.html"]) == ["/news/"]


def test_what_shows_an_error_or_is_gone_is_no_page_to_look_at(dist: Path) -> None:
    assert touched(dist, ["src/pages/404.astro", "src/pages/old.astro"], ["/404/"]) == []
