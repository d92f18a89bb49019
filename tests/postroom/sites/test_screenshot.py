"""Pictures by the real Chromium, in the sandbox."""

from __future__ import annotations

import http.server
import struct
import threading
from pathlib import Path

import pytest

from postroom.sites import screenshot as camera
from postroom.sites.screenshot import find_chromium, screenshot

with_browser = pytest.mark.skipif(find_chromium() is None, reason="there is no Chromium on this machine")


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    root = tmp_path / "dist"
    (root / "news/apples").mkdir(parents=True)
    (root / "style.css").write_text("body { margin: 0; background: #123456; }")
    (root / "news/apples/index.html").write_text("<link rel=stylesheet href=/style.css><body>")
    (root / "index.html").write_text("<body style='margin:0;background:#fff'>")
    return root


def size_of(picture: bytes) -> tuple[int, ...]:
    return struct.unpack(">II", picture[16:24])


@with_browser
async def test_a_page_is_shown_with_its_stylesheet(dist):
    import pyvips

    picture = await screenshot(dist, "/news/apples/", width=640, height=400)
    assert picture is not None
    assert size_of(picture) == (640, 400)
    assert [round(value) for value in pyvips.Image.new_from_buffer(picture, "")(300, 200)[:3]] == [0x12, 0x34, 0x56]


@with_browser
async def test_a_page_can_not_reach_out_while_its_picture_is_taken(dist):
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        where = f"http://127.0.0.1:{server.server_address[1]}"
        (dist / "index.html").write_text(
            f"<body><img src='{where}/pixel'><script>fetch('{where}/told')</script>"
            "<iframe src='file:///etc/passwd'></iframe>"
        )
        assert await screenshot(dist, "/") is not None
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
    assert asked == []


async def test_without_a_browser_there_is_no_picture_and_no_error(dist, monkeypatch):
    monkeypatch.setattr(camera, "find_chromium", lambda: None)
    assert await screenshot(dist, "/") is None


async def test_a_browser_that_fails_is_no_picture_and_no_error(dist, monkeypatch, caplog):
    monkeypatch.setattr(camera, "find_chromium", lambda: Path("/usr/bin/false"))
    assert await screenshot(dist, "/") is None
    assert "no picture of /" in caplog.text


async def test_whatever_goes_wrong_around_the_browser_is_no_error_either(dist, monkeypatch, caplog):
    monkeypatch.setattr(camera, "find_chromium", lambda: Path("/usr/bin/false"))
    monkeypatch.setattr(camera, "_CAMERA", Path("/not/there"))
    assert await screenshot(dist, "/") is None
    assert "no picture of /" in caplog.text
