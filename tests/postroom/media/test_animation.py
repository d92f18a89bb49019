"""Animations stay as they came, less what tells of their maker, beside a still master."""

import io

import pytest
from PIL import Image, PngImagePlugin

from postroom.media.animation import without_metadata
from postroom.media.darkroom import Darkroom
from tests.postroom.media.pictures import exif, flag


def moving(form: str, **options: object) -> bytes:
    frames = [flag().rotate(90 * i) for i in range(4)]
    out = io.BytesIO()
    frames[0].save(out, form, save_all=True, append_images=frames[1:], duration=80, loop=0, **options)
    return out.getvalue()


@pytest.mark.parametrize("form", ["GIF", "WEBP"])
def test_an_animation_is_kept_as_it_came_with_a_still_master(room: Darkroom, form: str) -> None:
    source = moving(form)
    made = room.develop(source, form.lower())
    assert made.animated
    assert made.parts[f"animation.{form.lower()}"] == source
    assert made.parts["master.avif"]
    assert (made.width, made.height) == (96, 64)


def test_an_animated_png_is_kept_too(room: Darkroom) -> None:
    source = moving("PNG")
    made = room.develop(source, "png")
    assert made.parts["animation.png"] == source


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_metadata_is_cut_out_and_every_frame_stays(form: str) -> None:
    told = PngImagePlugin.PngInfo()
    told.add_text("Comment", "SecretCam")
    options: dict[str, object] = {"GIF": {"comment": b"SecretCam"}, "WEBP": {"exif": exif(1)}, "PNG": {"pnginfo": told}}
    source = moving(form, **options[form])  # type: ignore[arg-type]
    assert b"SecretCam" in source
    kept = without_metadata(source, form.lower())
    assert kept is not None
    assert b"SecretCam" not in kept
    before, after = Image.open(io.BytesIO(source)), Image.open(io.BytesIO(kept))
    assert before.n_frames == after.n_frames == 4
    for frame in range(4):
        before.seek(frame)
        after.seek(frame)
        assert before.convert("RGBA").tobytes() == after.convert("RGBA").tobytes()


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_an_animation_cut_short_is_not_kept(form: str) -> None:
    source = moving(form)
    assert without_metadata(source[: len(source) * 2 // 3], form.lower()) is None
