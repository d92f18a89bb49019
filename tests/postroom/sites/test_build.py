"""Real Astro builds of the sample site in the real sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postroom.errors import BadInput, BuildFailed, TimedOut
from postroom.settings import settings
from postroom.sites.build import Built, build
from postroom.sites.check import check
from postroom.sites.node import find_node, install
from tests.fixtures.sites import GARDEN

Export = Callable[..., Path]


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def limit(**values: int) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"POSTROOM_{name.upper()}", str(value))
        settings.cache_clear()

    yield limit
    monkeypatch.undo()
    settings.cache_clear()


def page(frontmatter: str) -> str:
    return f"---\n{frontmatter}\n---\n<html><body><pre>{{JSON.stringify(found)}}</pre></body></html>\n"


async def test_the_sample_site_builds_and_may_go_out(garden_export, packages, tmp_path):
    lines: list[str] = []
    built = await build(garden_export(), packages, tmp_path / "dist", on_line=lines.append)

    found = check(built.dist, built)
    assert found.problems == ()
    assert built.tried == ()
    front = (built.dist / "index.html").read_text()
    assert "Bulbs for spring are here" in front
    assert 'href="/hours/"' in front
    assert "Tuesday to Friday" in (built.dist / "hours/index.html").read_text()
    assert (built.dist / "news/bulbs-for-spring/index.html").is_file()
    assert any("page(s) built" in line for line in lines), "the output is streamed"
    assert built.seconds < 30


async def test_a_news_page_shows_text_as_text_and_pictures_unchanged(garden_export, packages, tmp_path):
    directory = garden_export(
        {
            "src/pages/news/apples.astro": """---
import News from "../../layouts/News.astro";
import avif1 from "../../assets/mail/apples-1a2b3c4d.avif";
import plain1 from "../../assets/mail/apples-1a2b3c4d.png";
import document1 from "../../assets/mail/prices-5e6f7a8b.pdf?url";

const title = "Apples <b>are</b> ripe";
const date = "2026-09-12";
const text = ["Come & see.", "<script>alert(1)</script>"];
const pictures = [{ avif: avif1, plain: plain1, alt: "A basket", width: 4, height: 3 }];
const documents = [{ href: document1, name: "Prices.pdf" }];
---

<News {title} {date} {text} {pictures} {documents} />
"""
        }
    )
    import pyvips

    mail = directory / "src/assets/mail"
    mail.mkdir(parents=True)
    picture = pyvips.Image.black(40, 30)
    picture.write_to_file(str(mail / "apples-1a2b3c4d.png"))
    picture.write_to_file(str(mail / "apples-1a2b3c4d.avif"))
    (mail / "prices-5e6f7a8b.pdf").write_bytes(b"%PDF-1.4 prices")
    sent = {
        (mail / name).read_bytes() for name in ("apples-1a2b3c4d.avif", "apples-1a2b3c4d.png", "prices-5e6f7a8b.pdf")
    }

    built = await build(directory, packages, tmp_path / "dist")

    shown = (built.dist / "news/apples/index.html").read_text()
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script>" not in shown
    assert "Apples &lt;b&gt;are" in shown
    assert '<source srcset="/_astro/apples-1a2b3c4d.' in shown
    assert 'alt="A basket"' in shown
    assert sent <= {path.read_bytes() for path in (built.dist / "_astro").iterdir()}
    assert check(built.dist, built).problems == ()


ATTEMPTS = page("""
import fs from "node:fs";
import net from "node:net";
import { execFileSync } from "node:child_process";
const found = {};
const attempt = (name, act) => {
  try { found[name] = String(act()); } catch (error) { found[name] = "refused: " + error.code; }
};
attempt("environment", () => JSON.stringify(process.env));
attempt("key", () => process.env.AWS_SECRET_ACCESS_KEY);
attempt("parent", () => fs.readFileSync(`/proc/${process.ppid}/environ`, "utf8"));
attempt("first", () => fs.readFileSync("/proc/1/environ", "utf8"));
attempt("outside", () => fs.readFileSync("%(secret)s", "utf8"));
attempt("shadow", () => fs.readFileSync("/etc/shadow", "utf8"));
attempt("write", () => fs.writeFileSync("%(secret)s.made", "x"));
attempt("modules", () => fs.writeFileSync("node_modules/astro/package.json", "{}"));
attempt("program", () => execFileSync("/usr/bin/id").toString());
found.connection = await new Promise((done) => {
  const socket = net.connect(%(port)d, "127.0.0.1", () => done("connected"));
  socket.on("error", (error) => done("refused: " + error.code));
});
found.fetched = await fetch("http://example.com/").then(() => "fetched", (error) => "refused: " + error.cause?.code);
""")


async def test_a_page_that_tries_to_get_out_at_build_time_gets_nothing_and_it_is_told(
    garden_export, packages, tmp_path, monkeypatch
):
    import json
    import re
    import socket

    secret = tmp_path / "secret.txt"
    secret.write_text("very-secret-file")
    secret.chmod(0o644)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-variable")
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = ATTEMPTS.replace("%(secret)s", str(secret)).replace("%(port)d", str(server.getsockname()[1]))
        directory = garden_export({"src/pages/evil.astro": text})
        built = await build(directory, packages, tmp_path / "dist")

    shown = (built.dist / "evil/index.html").read_text()
    assert "very-secret" not in shown
    told = re.search(r"<pre>(.*)</pre>", shown, re.S)
    assert told
    found = json.loads(told[1].replace("&quot;", '"').replace("&#34;", '"').replace("&amp;", "&"))
    assert found["key"] == "undefined"
    assert "AWS" not in found["environment"]
    for name in ("outside", "shadow", "write", "modules", "connection", "fetched"):
        assert found[name].startswith("refused"), (name, found[name])
    assert "uid=0" not in found["program"]
    assert not secret.with_name("secret.txt.made").exists()

    said = "\n".join(built.tried)
    for attempt in (
        "read the whole environment",
        "read the variable AWS_SECRET_ACCESS_KEY",
        "read /proc/",
        f"read {secret}",
        "read /etc/shadow",
        f"write {secret}.made",
        "start the program /usr/bin/id",
        "connect to 127.0.0.1:",
        "example.com",
    ):
        assert attempt in said, f"{attempt} is not in\n{said}"
    assert check(built.dist, built).tried == built.tried


async def test_one_build_can_not_poison_the_packages_of_the_next(garden_export, packages, tmp_path):
    before = (packages / "astro/package.json").read_bytes()
    text = page("""
import fs from "node:fs";
const found = [];
for (const act of [
  () => fs.writeFileSync("node_modules/astro/package.json", "{}"),
  () => fs.writeFileSync("node_modules/evil.js", "x"),
  () => fs.linkSync("node_modules/astro/package.json", "linked.json"),
  () => fs.chmodSync("node_modules/astro/package.json", 0o666),
]) { try { act(); found.push("done"); } catch (error) { found.push(error.code); } }
""")
    built = await build(garden_export({"src/pages/evil.astro": text}), packages, tmp_path / "dist")
    assert "done" not in (built.dist / "evil/index.html").read_text()
    assert (packages / "astro/package.json").read_bytes() == before


async def test_a_build_that_hangs_is_ended_at_its_time_limit(garden_export, packages, tmp_path, limited):
    limited(build_seconds=4)
    hangs = garden_export(
        {"src/pages/evil.astro": page("const found = 1; await new Promise((r) => setTimeout(r, 600000));")}
    )
    began = time.monotonic()
    with pytest.raises(TimedOut, match="time limit of 4 s"):
        await build(hangs, packages, tmp_path / "dist")
    assert time.monotonic() - began < 15
    assert not (tmp_path / "dist").exists()


async def test_a_build_that_eats_memory_is_ended(garden_export, packages, tmp_path, limited):
    limited(build_memory_mb=400)
    code = "const found = []; for (;;) found.push(Buffer.alloc(20_000_000, 1));"
    with pytest.raises(BuildFailed) as raised:
        await build(garden_export({"src/pages/evil.astro": page(code)}), packages, tmp_path / "dist")
    assert "memory" in str(raised.value).lower() or "alloc" in str(raised.value).lower()


async def test_a_page_that_does_not_build_is_told_with_the_last_lines_and_no_pages_come_back(
    garden_export, packages, tmp_path
):
    broken = garden_export({"src/pages/zz.astro": page("throw new Error('the roof fell in'); const found = 1;")})
    (tmp_path / "dist").mkdir()
    with pytest.raises(BuildFailed, match="the roof fell in"):
        await build(broken, packages, tmp_path / "dist")
    assert not list((tmp_path / "dist").iterdir()), "a partial dist is not taken"


async def test_a_dist_that_came_with_the_site_is_not_taken_for_a_build(garden_export, packages, tmp_path):
    stale = garden_export({"dist/index.html": "stale", "src/pages/index.astro": None})
    built = await build(stale, packages, tmp_path / "dist")
    assert check(built.dist, built).problems == ("it has no index.html",)


async def test_links_in_dist_are_left_behind_and_refused(garden_export, packages, tmp_path):
    code = """
import fs from "node:fs";
fs.mkdirSync("dist", { recursive: true });
fs.symlinkSync("/etc/passwd", "dist/passwd.txt");
fs.symlinkSync("/etc", "dist/etc");
const found = 1;
"""
    built = await build(garden_export({"src/pages/evil.astro": page(code)}), packages, tmp_path / "dist")
    assert built.odd == ("etc", "passwd.txt")
    assert not list(built.dist.rglob("passwd*"))
    assert "passwd.txt is a link or a special file" in check(built.dist, built).problems


async def test_the_weaker_mode_builds_too_when_it_is_chosen(garden, packages, monkeypatch):
    import tempfile

    from postroom.sites.workspace import export

    monkeypatch.setenv("POSTROOM_SANDBOX", "weak")
    settings.cache_clear()
    try:
        with tempfile.TemporaryDirectory(prefix="postroom-weak-") as open_to_others:
            root = Path(open_to_others)
            root.chmod(0o755)
            export(garden, garden.tree(garden.head()), root / "source", lambda key: b"")
            if not _others_may_run(find_node().program):
                pytest.skip("Node lies where only its owner may go: the weaker mode can't give it to another user")
            built: Built = await build(root / "source", packages, root / "dist")
            assert (built.dist / "index.html").is_file()
    finally:
        monkeypatch.undo()
        settings.cache_clear()


def _others_may_run(program: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (program, *program.parents))


def test_packages_are_installed_once_per_lock_and_without_scripts(packages):
    files = {name: (GARDEN / name).read_bytes() for name in ("package.json", "package-lock.json")}
    began = time.monotonic()
    assert install(files, packages.parent.parent) == packages
    assert time.monotonic() - began < 0.5


def test_a_site_without_a_lock_is_refused_by_name(tmp_path):
    with pytest.raises(BadInput, match=r"no package-lock\.json"):
        install({"package.json": b"{}"}, tmp_path)


def test_a_lock_that_does_not_fit_is_bad_input_and_leaves_nothing(tmp_path):
    with pytest.raises(BadInput, match=r"does not fit"):
        install({"package.json": b'{"dependencies": {"is-number": "7.0.0"}}', "package-lock.json": b"{}"}, tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def dist_with(tmp_path: Path, files: dict[str, bytes]) -> Path:
    for name, content in {"index.html": b"<html>", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    "link",
    [
        b"https://media-source.garden.example.com.s3.eu-west-1.amazonaws.com/a.avif",
        b"http://localhost:4566/a.avif?X-Amz-Signature=abc",
        b"?x-amz-credential=abc",
    ],
)
def test_a_link_into_a_bucket_keeps_the_site_from_going_out(tmp_path, link):
    found = check(dist_with(tmp_path, {"news/index.html": b"<img src='" + link + b"'>"}))
    assert found.problems == ("news/index.html has a link into a bucket that stops working",)
    with pytest.raises(BuildFailed, match=r"news/index\.html"):
        found.demand()


def test_an_empty_dist_a_missing_front_page_and_a_link_are_named(tmp_path):
    assert check(tmp_path).problems == ("it is empty",)
    (tmp_path / "a.html").write_text("a")
    assert check(tmp_path).problems == ("it has no index.html",)
    (tmp_path / "index.html").write_text("a")
    (tmp_path / "out").symlink_to("/etc/passwd")
    assert check(tmp_path).problems == ("out is a link",)


def test_a_file_and_a_site_that_are_too_large_are_named(tmp_path, limited):
    limited(site_file_mb=1, site_total_mb=2)
    half = b"x" * 900_000
    dist_with(tmp_path, {"big.bin": b"x" * 1_100_000, "1.bin": half, "2.bin": half})
    problems = check(tmp_path).problems
    assert problems == ("big.bin has 1.0 MB, more than 1", "it has 3 MB, more than 2")


def test_an_unsuspicious_site_passes(tmp_path):
    assert (
        check(dist_with(tmp_path, {"a.html": b"we love amazonaws and X-Amz", "b.png": b"X-Amz-Signature"})).problems
        == ()
    )


def test_a_long_file_is_looked_at_in_time(tmp_path):
    began = time.process_time()
    assert check(dist_with(tmp_path, {"a.js": b"a" * 200_000})).problems == ()
    assert time.process_time() - began < 10


@pytest.mark.parametrize("name", ["feed.rss", "opening.ics", "_redirects"])
def test_a_link_into_a_bucket_is_found_in_every_kind_of_text(tmp_path, name):
    assert check(dist_with(tmp_path, {name: b"https://a.s3.amazonaws.com/b"})).problems
