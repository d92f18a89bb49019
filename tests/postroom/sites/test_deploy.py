"""Deploys into the real local AWS."""

from __future__ import annotations

import http.server
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from postroom.aws import clients
from postroom.aws.clients import client
from postroom.errors import BuildFailed, LeaseLost, Missing, Unavailable
from postroom.sites import deploy as deploying
from postroom.sites.deploy import Deployed, deploy, list_bucket, publish

FIRST = {
    "index.html": "<link href=/_astro/a.1.css><a href=/about/>",
    "about/index.html": "about",
    "_astro/a.1.css": "a{}",
    "leaf.svg": "<svg/>",
}
SECOND = {
    "index.html": "<link href=/_astro/a.2.css><a href=/news/>",
    "news/index.html": "news",
    "_astro/a.2.css": "b{}",
    "leaf.svg": "<svg/>",
}


@pytest.fixture
def bucket(local_aws: str) -> str:
    name = f"edit.{uuid.uuid4().hex[:8]}.example.com"
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": clients.region()})
    return name


@pytest.fixture
def dist(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    def make(files: dict[str, str]) -> Path:
        root = tmp_path / uuid.uuid4().hex[:8]
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        return root

    return make


def told(bucket: str, key: str) -> tuple[str, str]:
    head = client("s3").head_object(Bucket=bucket, Key=key)
    return head["ContentType"], head["CacheControl"]


def body(bucket: str, key: str) -> str:
    return client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode()


class Requests:
    """The requests of boto3's clients, in order; `before` may act or fail just before one is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda operation, key: None

    def __call__(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        key = params.get("Key", "")
        self.before(model.name, key)
        self.sent.append((model.name, key))

    def writes(self) -> list[tuple[str, str]]:
        return [(name, key) for name, key in self.sent if name in ("PutObject", "DeleteObject")]


@pytest.fixture
def requests(local_aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    """What the deploy's own client sends; one at a time, so that the order is told."""
    monkeypatch.setenv("POSTROOM_DEPLOY_CONCURRENCY", "1")
    from postroom.settings import settings

    settings.cache_clear()
    seen = Requests()
    events = client("s3", retries=False, read_timeout=deploying._SOCKET_SECONDS).meta.events
    events.register("provide-client-params.s3.*", seen)
    yield seen
    events.unregister("provide-client-params.s3.*", seen)
    settings.cache_clear()


def test_the_first_deploy_brings_every_file_with_its_type_and_cache_time(bucket, dist):
    done = deploy(dist(FIRST), bucket)

    assert set(list_bucket(bucket)) == set(FIRST) == set(done.uploaded)
    assert told(bucket, "index.html") == ("text/html; charset=utf-8", "public, max-age=60")
    assert told(bucket, "_astro/a.1.css") == ("text/css; charset=utf-8", "public, max-age=31536000, immutable")
    assert told(bucket, "leaf.svg") == ("image/svg+xml", "public, max-age=60")


def test_a_second_deploy_of_the_same_files_writes_nothing(bucket, dist, requests):
    deploy(dist(FIRST), bucket)
    requests.sent.clear()

    done = deploy(dist(FIRST), bucket)

    assert requests.writes() == []
    assert (done.uploaded, done.deleted, done.unchanged) == ((), (), len(FIRST))


def test_only_changed_files_go_out_assets_first_then_pages_then_deletions(bucket, dist, requests):
    deploy(dist(FIRST), bucket)
    requests.sent.clear()

    done = deploy(dist(SECOND), bucket)

    assert requests.writes() == [
        ("PutObject", "_astro/a.2.css"),
        ("PutObject", "news/index.html"),
        ("PutObject", "index.html"),
        ("DeleteObject", "about/index.html"),
        ("DeleteObject", "_astro/a.1.css"),
    ]
    assert done.unchanged == 1
    assert {key: body(bucket, key) for key in list_bucket(bucket)} == SECOND


def test_a_deploy_cut_short_anywhere_leaves_a_working_site_and_the_retry_heals_it(bucket, dist, requests):
    new = dist(SECOND)
    for cut_at in range(5):
        deploy(dist(FIRST), bucket)
        requests.sent.clear()

        def stop(operation: str, key: str, at: int = cut_at) -> None:
            if operation in ("PutObject", "DeleteObject") and len(requests.writes()) == at:
                raise LeaseLost("another holder has the site")

        requests.before = stop
        with pytest.raises(LeaseLost):
            deploy(new, bucket)
        requests.before = lambda operation, key: None

        now = {key: body(bucket, key) for key in list_bucket(bucket)}
        for page in (key for key in now if key.endswith(".html")):
            for target in ("/_astro/a.1.css", "/_astro/a.2.css", "/about/", "/news/"):
                if target in now[page]:
                    there = target.strip("/") + ("/index.html" if target.endswith("/") else "")
                    assert there in now, f"cut at {cut_at}: {page} refers to {target}, which is not there"
        deploy(new, bucket)
        assert {key: body(bucket, key) for key in list_bucket(bucket)} == SECOND


def test_the_lease_is_asked_before_every_write_and_nothing_is_written_after_it_is_lost(bucket, dist, requests):
    asked: list[int] = []

    def check() -> None:
        asked.append(len(requests.writes()))
        if len(requests.writes()) == 2:
            raise LeaseLost("another holder has the site")

    with pytest.raises(LeaseLost):
        deploy(dist(FIRST), bucket, check=check)

    assert len(requests.writes()) == 2
    assert set(asked) == {0, 1, 2}


def test_a_file_written_by_a_former_holder_after_the_listing_is_replaced_by_ours(bucket, dist, requests):
    deploy(dist(FIRST), bucket)
    other = client("s3")
    late = {"index.html", "news/index.html", "about/index.html"}  # changed, made, and about to be deleted

    def former_holder(operation: str, key: str) -> None:
        if operation in ("PutObject", "DeleteObject") and key in late:
            late.discard(key)
            other.put_object(Bucket=bucket, Key=key, Body=b"from the former holder")

    requests.before = former_holder
    deploy(dist(SECOND), bucket)

    assert not late
    assert {key: body(bucket, key) for key in list_bucket(bucket)} == SECOND


def test_a_file_that_vanished_after_the_listing_is_written_again(bucket, dist, requests):
    deploy(dist(FIRST), bucket)
    gone = {"index.html"}

    def vanish(operation: str, key: str) -> None:
        if operation == "PutObject" and key in gone:
            gone.discard(key)
            client("s3").delete_object(Bucket=bucket, Key=key)

    requests.before = vanish
    deploy(dist(SECOND), bucket)

    assert body(bucket, "index.html") == SECOND["index.html"]


class _Broken(http.server.BaseHTTPRequestHandler):
    """Carries requests to the local AWS; the first writes get no answer, whether they happen or not."""

    protocol_version = "HTTP/1.1"
    target = ""
    lose = 0
    happen = True
    lock = threading.Lock()

    def _carry(self) -> None:
        import urllib.error
        import urllib.request

        data = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        if self.command in ("PUT", "DELETE") and not self.happen:
            self.close_connection = True
            return
        request = urllib.request.Request(self.target + self.path, data=data, method=self.command)
        for name, value in self.headers.items():
            request.add_header(name, value)
        try:
            answer = urllib.request.urlopen(request, timeout=10)
        except urllib.error.HTTPError as error:
            answer = error
        content = answer.read()
        with type(self).lock:
            if self.command in ("PUT", "DELETE") and type(self).lose > 0:
                type(self).lose -= 1
                self.close_connection = True
                return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = _carry

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def broken_line(*, lose: int = 0, happen: bool = True) -> Iterator[None]:
    """While open, boto3 talks through a line that loses the answers of the first writes, or every write."""
    before = os.environ["AWS_ENDPOINT_URL"]
    _Broken.target, _Broken.lose, _Broken.happen = before, lose, happen
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Broken)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield
    finally:
        os.environ["AWS_ENDPOINT_URL"] = before
        server.shutdown()
        server.server_close()
        thread.join(5)


def test_a_write_whose_answer_is_lost_counts_when_it_happened(bucket, dist):
    deploy(dist(FIRST), bucket)
    with broken_line(lose=4):
        done = deploy(dist(SECOND), bucket)
        assert _Broken.lose == 0

    assert len(done.uploaded) == 3
    assert {key: body(bucket, key) for key in list_bucket(bucket)} == SECOND


def test_a_service_that_takes_no_writes_ends_the_deploy_as_unavailable(bucket, dist):
    began = time.monotonic()
    with broken_line(happen=False), pytest.raises(Unavailable, match="could not be written"):
        deploy(dist(FIRST), bucket)
    assert time.monotonic() - began < 20


def test_nothing_is_deleted_when_what_is_to_be_deployed_has_no_front_page(bucket, dist):
    deploy(dist(FIRST), bucket)
    with pytest.raises(BuildFailed, match=r"no index\.html"):
        deploy(dist({"about/index.html": "x"}), bucket)
    assert set(list_bucket(bucket)) == set(FIRST)


def test_a_missing_bucket_is_named(local_aws, dist):
    with pytest.raises(Missing, match=r"no bucket edit\.nobody"):
        deploy(dist(FIRST), "edit.nobody.example.com")


def test_many_files_go_out_side_by_side(bucket, dist):
    files = {"index.html": "x"} | {f"_astro/{n}.css": str(n) for n in range(60)}
    most, now, lock = 0, 0, threading.Lock()

    def count(params: Any, **_: Any) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)

    def uncount(**_: Any) -> None:
        nonlocal now
        with lock:
            now -= 1

    events = client("s3", retries=False, read_timeout=deploying._SOCKET_SECONDS).meta.events
    events.register("before-call.s3.PutObject", count)
    events.register("after-call.s3.PutObject", uncount)
    try:
        deploy(dist(files), bucket)
    finally:
        events.unregister("before-call.s3.PutObject", count)
        events.unregister("after-call.s3.PutObject", uncount)
    assert set(list_bucket(bucket)) == set(files)
    assert 2 <= most <= 8


@pytest.fixture
def production(local_aws: str) -> str:
    name = f"{uuid.uuid4().hex[:8]}.example.com"
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": clients.region()})
    return name


def test_publishing_copies_the_edit_site_with_productions_cache_time(bucket, production, dist):
    deploy(dist(FIRST), bucket)
    publish(bucket, production)
    assert list_bucket(production) == list_bucket(bucket)
    assert told(production, "index.html") == ("text/html; charset=utf-8", "public, max-age=300")

    deploy(dist(SECOND), bucket)
    done: Deployed = publish(bucket, production)
    assert done.deleted == ("_astro/a.1.css", "about/index.html")
    assert {key: body(production, key) for key in list_bucket(production)} == SECOND
    assert publish(bucket, production).uploaded == ()


def test_publishing_an_empty_edit_site_leaves_production_alone(bucket, production, dist):
    deploy(dist(FIRST), production)
    with pytest.raises(Missing, match="nothing to publish"):
        publish(bucket, production)
    assert set(list_bucket(production)) == set(FIRST)


def test_publishing_while_the_edit_site_changes_is_refused_and_can_be_repeated(bucket, production, dist):
    deploy(dist(FIRST), bucket)
    changed = threading.Event()

    def change() -> None:
        if not changed.is_set():
            changed.set()
            deploy(dist(SECOND), bucket)

    with pytest.raises(Unavailable, match="changed while"):
        publish(bucket, production, check=change)
    publish(bucket, production)
    assert {key: body(production, key) for key in list_bucket(production)} == SECOND
