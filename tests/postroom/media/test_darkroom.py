"""A hostile picture costs its sender the picture, and nobody anything else."""

import contextlib
import io
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import pyvips
from PIL import Image

from postroom.media.darkroom import Batch, Darkroom, NotDeveloped, by_machine
from postroom.settings import load
from tests.patience import PATIENCE
from tests.postroom.media.pictures import encoded, flag, noisy, png_header


def until(true: Callable[[], object], seconds: float = 10) -> None:
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def children_of(room: Darkroom) -> list[psutil.Process]:
    """The processes that work on pictures right now; none while the room is not open yet."""
    return psutil.Process(room._server.pid).children(recursive=True) if room._server else []


def slow_picture(edge: int = 3800) -> bytes:
    """A picture that takes seconds to encode."""
    grain = pyvips.Image.gaussnoise(edge, edge, mean=128, sigma=60).cast("uchar").copy(interpretation="b-w")
    return bytes(grain.jpegsave_buffer(Q=60))


def test_a_bomb_is_refused_by_its_header_within_two_seconds(room: Darkroom) -> None:
    room.develop(encoded(flag(), "PNG"), "png")
    begun = time.monotonic()
    with pytest.raises(NotDeveloped, match=r"30000×30000 pixels, more than the 100 megapixels"):
        room.develop(png_header(30000, 30000), "png")
    assert time.monotonic() - begun < 2


def test_a_truncated_picture_is_used_with_a_warning(room: Darkroom) -> None:
    whole = encoded(noisy(400, 300), "JPEG", quality=90)
    made = room.develop(whole[: len(whole) * 3 // 4], "jpeg")
    assert made.width == 400
    assert len(made.warnings) == 1
    assert "damaged" in made.warnings[0]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
def test_a_picture_of_which_nothing_is_left_is_refused(room: Darkroom, form: str) -> None:
    whole = encoded(noisy(400, 300), form)
    with pytest.raises(NotDeveloped, match=r"damaged|can't be"):
        room.develop(whole[: len(whole) // 20], form.lower())


@pytest.mark.parametrize("form", ["jpeg", "png", "webp", "gif", "tiff", "bmp", "heif", "avif", "svg"])
def test_garbage_is_refused_with_a_reason(room: Darkroom, form: str) -> None:
    with pytest.raises(NotDeveloped) as refused:
        room.develop(bytes(range(256)) * 20, form)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_loaders_that_are_not_needed_do_not_exist(room: Darkroom) -> None:
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
    with pytest.raises(NotDeveloped, match="can't be read"):
        room.develop(drawing, "png")


def test_a_picture_that_takes_too_long_is_killed() -> None:
    hasty = Darkroom(load(media_seconds=1, media_concurrency=1))
    try:
        begun = time.monotonic()
        with pytest.raises(NotDeveloped, match=r"longer than 1 s|1 s of CPU"):
            hasty.develop(slow_picture(), "jpeg")
        assert time.monotonic() - begun < 6
        until(lambda: not children_of(hasty))
        assert hasty.develop(encoded(flag(), "PNG"), "png").width == 96
    finally:
        hasty.close()


def test_a_picture_that_needs_too_much_memory_is_refused() -> None:
    small = Darkroom(load(media_memory_mb=128, media_concurrency=1))
    try:
        with pytest.raises(NotDeveloped, match=r"memory|decode"):
            small.develop(encoded(Image.new("RGB", (9000, 9000)), "PNG", compress_level=1), "png")
        assert small.develop(encoded(flag(), "PNG"), "png").width == 96
    finally:
        small.close()


def test_the_child_sees_none_of_our_secrets(room: Darkroom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-pass-on")
    fresh = Darkroom(load(media_concurrency=1))
    try:
        fresh.develop(encoded(flag(), "PNG"), "png")
        assert fresh._server is not None
        environment = Path(f"/proc/{fresh._server.pid}/environ").read_bytes()
        assert b"do-not-pass-on" not in environment
        assert b"AWS_" not in environment
    finally:
        fresh.close()


def test_a_child_can_open_no_file_and_no_connection_and_is_nobody(room: Darkroom) -> None:
    def work() -> None:
        with contextlib.suppress(NotDeveloped):  # it is killed below
            room.develop(slow_picture(), "jpeg")

    busy = threading.Thread(target=work)
    busy.start()
    try:
        until(lambda: children_of(room))
        child = children_of(room)[0].pid
        until(lambda: "Max open files            4 " in Path(f"/proc/{child}/limits").read_text())
        assert {fd.name for fd in Path(f"/proc/{child}/fd").iterdir()} == {"0", "1", "2", "3"}
        assert os.getsid(child) == child
        if os.geteuid() == 0:
            assert f"Uid:\t{65534}" in Path(f"/proc/{child}/status").read_text()
    finally:
        for one in children_of(room):
            one.kill()
        busy.join(30)


def test_a_killed_child_is_a_reason_not_a_hang(room: Darkroom) -> None:
    said: list[str] = []

    def work() -> None:
        try:
            room.develop(slow_picture(), "jpeg")
        except NotDeveloped as error:
            said.append(str(error))

    busy = threading.Thread(target=work)
    busy.start()
    until(lambda: children_of(room))
    children_of(room)[0].send_signal(signal.SIGSEGV)
    busy.join(30)
    assert said == ["the decoder crashed on it (SIGSEGV)"]


def test_the_fork_server_is_started_again_when_it_dies(room: Darkroom) -> None:
    room.develop(encoded(flag(), "PNG"), "png")
    assert room._server is not None
    before = room._server.pid
    os.kill(before, signal.SIGKILL)
    room._server.wait(10)
    assert room.develop(encoded(flag(), "PNG"), "png").width == 96
    assert room._server.pid != before


def test_cancelling_a_batch_kills_its_children(room: Darkroom) -> None:
    batch, ended = Batch(), threading.Event()

    def work() -> None:
        with pytest.raises(NotDeveloped, match="cancelled"):
            room.develop(slow_picture(), "jpeg", batch)
        ended.set()

    threading.Thread(target=work).start()
    until(lambda: children_of(room))
    batch.cancel()
    assert ended.wait(10)
    until(lambda: not children_of(room))


def test_closing_the_room_leaves_no_process() -> None:
    brief = Darkroom(load(media_concurrency=1))
    brief.develop(encoded(flag(), "PNG"), "png")
    assert brief._server is not None
    pid = brief._server.pid
    brief.close()
    assert not psutil.pid_exists(pid)


def test_nothing_native_is_loaded_into_the_callers_process() -> None:
    import subprocess
    import sys

    code = (
        "import sys, pathlib\n"
        "from postroom.media.prepare import prepare_now\n"
        "from postroom.media.result import MediaFile\n"
        "from postroom.media.shelves import FolderShelf\n"
        "from postroom.media.store import MediaStore\n"
        "data = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "done = prepare_now([MediaFile('a.png', data)], MediaStore(FolderShelf(pathlib.Path(sys.argv[2]))))\n"
        "assert done[0].used, done\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'pyvips', 'PIL', 'pillow_heif', 'boto3', 'prefect'}))\n"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder, "a.png")
        picture.write_bytes(encoded(flag(), "PNG"))
        ran = subprocess.run(
            [sys.executable, "-c", code, str(picture), folder], capture_output=True, text=True, timeout=60, check=False
        )
    assert ran.stdout.strip() == "[]", ran.stderr


def test_small_machines_develop_fewer_at_once() -> None:
    assert by_machine(10_000_000) == 1
    assert 1 <= by_machine(100) <= 8


def test_an_animation_that_is_too_large_is_kept_as_a_still() -> None:
    narrow = Darkroom(load(media_max_pixels=20_000, media_concurrency=1))
    try:
        frames = [Image.effect_noise((96, 64), 20 + i).convert("P") for i in range(8)]
        out = io.BytesIO()
        frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=50)
        made = narrow.develop(out.getvalue(), "gif")
        assert not made.animated
        assert "still picture" in made.warnings[0]
        assert "animation.gif" not in made.parts
    finally:
        narrow.close()
