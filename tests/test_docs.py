"""The documentation says what the code does: pages made from it are fresh, and what they name is there."""

import re
from pathlib import Path

import pytest

from cli import docs
from cli.checkups import OURS
from cli.main import VERBS
from postroom.errors import Misconfigured
from postroom.settings import PREFIX, Settings, load

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_is_documented(name: str) -> None:
    description = Settings.model_fields[name].description
    assert description
    assert description.endswith((".", ")")), f"the description of {name} is not a sentence"
    assert f"| `{PREFIX}{name.upper()}` |" in docs.PAGE.read_text(), "docs/settings.md is stale: run `make docs`"


def test_the_page_of_settings_is_fresh() -> None:
    assert docs.PAGE.read_text() == docs.settings_page(), "docs/settings.md is stale: run `make docs`"


def test_every_setting_is_in_exactly_one_group() -> None:
    named = [name for names in docs.groups().values() for name in names]
    assert sorted(named) == sorted(Settings.model_fields)


def test_every_variable_that_the_code_reads_is_a_setting() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OURS
    for room in ("cli", "workers", "flows", "blocks", "deployments", "postroom"):
        for file in (ROOT / room).rglob("*.py"):
            for variable in re.findall(r"\bPOSTROOM_[A-Z_]*[A-Z]\b", file.read_text()):
                assert variable.removesuffix("_FILE") in known, f"{file.relative_to(ROOT)} names {variable}"


@pytest.mark.parametrize("hook", ["os:system", "subprocess:run", "tests:at", "tests.x:y.z", "mytests.dying:at"])
def test_a_hook_into_the_steps_comes_from_the_tests_alone(hook: str) -> None:
    with pytest.raises(Misconfigured, match="POSTROOM_STEP_HOOK"):
        load(step_hook=hook)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_and_verbs_named_on_a_page_exist(page: Path) -> None:
    text = page.read_text()
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OURS
    for variable in re.findall(r"POSTROOM_[A-Z_]+[A-Z]", text):
        assert variable.removesuffix("_FILE") in known, f"{page.name} names {variable}"
    for verb in re.findall(r"`(?:uv run )?postroom ([a-z-]+)", text):
        assert verb in VERBS, f"{page.name} names the verb {verb}"


def promises() -> list[tuple[str, str]]:
    return re.findall(r"^\| ([A-Z].*?) \| `(tests/\S+)` \|$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


@pytest.mark.parametrize(("promise", "file"), promises(), ids=lambda value: value[:60])
def test_a_promise_is_the_name_of_a_test(promise: str, file: str) -> None:
    names = re.findall(r"^\s*(?:async )?def test_(\w+)", (ROOT / file).read_text(), re.MULTILINE)
    assert words(promise) in [words(name.replace("_", " ")) for name in names], f"no test of {file} is named so"


def test_there_are_promises() -> None:
    assert len(promises()) > 20
