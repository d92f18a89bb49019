"""Pictures of every make come out the right way up, in the right colours, without their metadata."""

import io

import pytest
import pyvips
from PIL import Image

from postroom.media.darkroom import Darkroom, Developed
from tests.postroom.media.pictures import (
    CORNERS,
    as_vips,
    close,
    corners,
    encoded,
    exif,
    few_colours,
    flag,
    heic,
    noisy,
    turned,
)


def assert_is_the_flag(made: Developed, within: int = 14) -> None:
    for name, data in made.parts.items():
        if name.startswith("master"):
            got = corners(data)
            assert all(close(g[:3], w, within) for g, w in zip(got, CORNERS, strict=True)), (name, got)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_camera_orientation_comes_out_upright(room: Darkroom, orientation: int) -> None:
    made = room.develop(turned(orientation), "jpeg")
    assert (made.width, made.height) == (96, 64)
    assert_is_the_flag(made)


def test_a_heic_from_a_phone_comes_out_upright_once(room: Darkroom) -> None:
    made = room.develop(heic(flag().transpose(Image.Transpose.ROTATE_90), exif=exif(6)), "heif")
    assert made.width is not None
    assert_is_the_flag(made) if made.width == 96 else pytest.fail(f"{made.width}×{made.height}")


def test_a_ten_bit_heic_becomes_eight_bits(room: Darkroom) -> None:
    deep = pillow_sixteen_bits()
    assert_is_the_flag(room.develop(deep, "heif"))


def pillow_sixteen_bits() -> bytes:
    import pillow_heif

    raw = b"".join((v * 257).to_bytes(2, "little") for v in flag().tobytes())
    out = io.BytesIO()
    pillow_heif.from_bytes("RGB;16", (96, 64), raw).save(out, quality=95, chroma=444)
    assert pillow_heif.open_heif(out.getvalue(), convert_hdr_to_8bit=False).info["bit_depth"] > 8
    return out.getvalue()


@pytest.mark.parametrize("where", ["exif", "xmp", "comment"])
def test_no_metadata_survives(room: Darkroom, where: str) -> None:
    options = {"exif": {"exif": exif(1)}, "xmp": {"xmp": b"<x>SecretCam</x>"}, "comment": {"comment": "SecretCam"}}
    source = encoded(noisy(), "JPEG", **options[where])
    assert b"SecretCam" in source
    for name, data in room.develop(source, "jpeg").parts.items():
        assert b"SecretCam" not in data, name
        fields = set(pyvips.Image.new_from_buffer(data, "").get_fields())
        assert not {f for f in fields if "exif" in f or "xmp" in f or "icc" in f}, name


def test_a_display_p3_picture_keeps_its_colours(room: Darkroom) -> None:
    wide = as_vips(flag()).icc_transform("p3", input_profile="srgb")
    source = wide.pngsave_buffer(keep="icc")
    plain = corners(wide.pngsave_buffer(keep="none"))
    assert not close(plain[0][:3], CORNERS[0], 6), "the test must be able to fail"
    assert_is_the_flag(room.develop(source, "png"), within=6)


def test_a_display_p3_heic_without_icc_keeps_its_colours(room: Darkroom) -> None:
    import pillow_heif

    wide = as_vips(flag()).icc_transform("p3", input_profile="srgb")
    picture = Image.frombytes("RGB", flag().size, bytes(wide.write_to_memory()))
    out = io.BytesIO()
    pillow_heif.from_pillow(picture).save(
        out, quality=98, chroma=444, save_nclx_profile=True, color_primaries=12, transfer_characteristics=13,
        matrix_coefficients=6, full_range_flag=1,
    )  # fmt: skip
    assert_is_the_flag(room.develop(out.getvalue(), "heif"), within=8)


def test_cmyk_with_a_profile_has_the_colours_of_its_print(room: Darkroom) -> None:
    print_colours = as_vips(flag()).icc_transform("cmyk", input_profile="srgb")
    made = room.develop(print_colours.jpegsave_buffer(Q=98, keep="icc"), "jpeg")
    assert_is_the_flag(made, within=65)  # the gamut of ink is smaller, of blue above all


def test_cmyk_without_a_profile_is_not_inverted(room: Darkroom) -> None:
    made = room.develop(encoded(flag(mode="CMYK"), "JPEG", quality=95), "jpeg")
    red, green, blue, white = corners(made.parts["master.jpg"])
    assert red[0] > 150 > max(red[1:])
    assert green[1] > max(green[0], green[2])
    assert blue[2] > max(blue[:2])
    assert min(white) > 225


@pytest.mark.parametrize("bands", ["rgb16", "grey16", "grey16+alpha"])
def test_sixteen_bits_become_eight(room: Darkroom, bands: str) -> None:
    deep = as_vips(flag()).colourspace("rgb16") if bands == "rgb16" else as_vips(flag(mode="L")).colourspace("grey16")
    if bands == "grey16+alpha":
        deep = deep.bandjoin(32768)
    made = room.develop(deep.pngsave_buffer(), "png")
    if bands == "rgb16":
        assert_is_the_flag(made)
        return
    grey = corners(flag_png("L"))
    for name, data in made.parts.items():
        assert all(abs(a[0] - b[0]) <= 14 for a, b in zip(corners(data), grey, strict=True)), name
    if bands == "grey16+alpha":
        assert made.fallback_type == "image/png"
        assert abs(corners(made.parts["master.png"])[0][-1] - 128) <= 2


def flag_png(mode: str, **options: object) -> bytes:
    return encoded(flag(mode=mode), "PNG", **options)


@pytest.mark.parametrize(
    ("name", "source", "form"),
    [
        ("palette", encoded(few_colours(), "PNG"), "png"),
        ("palette gif", encoded(few_colours(), "GIF"), "gif"),
        ("progressive", encoded(flag(), "JPEG", quality=95, progressive=True, subsampling=0), "jpeg"),
        ("webp", encoded(flag(), "WEBP", lossless=True), "webp"),
        ("tiff", encoded(flag(), "TIFF"), "tiff"),
        ("bmp", encoded(flag(), "BMP"), "bmp"),
        ("palette bmp", encoded(few_colours(), "BMP"), "bmp"),
        ("odd size", encoded(flag(97, 63), "PNG"), "png"),
        ("avif", as_vips(flag()).heifsave_buffer(compression="av1", Q=95, subsample_mode="off"), "avif"),
        ("10-bit avif", as_vips(flag()).colourspace("rgb16").heifsave_buffer(
            compression="av1", Q=95, bitdepth=10, subsample_mode="off"), "avif"),
    ],
)  # fmt: skip
def test_formats_of_every_day_keep_their_colours(room: Darkroom, name: str, source: bytes, form: str) -> None:
    made = room.develop(source, form)
    assert made.warnings == []
    assert_is_the_flag(made)


def test_one_bit_stays_black_and_white(room: Darkroom) -> None:
    made = room.develop(flag_png("1"), "png")
    assert {round(v[0] / 255) for v in corners(made.parts["master.avif"])} <= {0, 1}
    assert corners(made.parts["master.avif"])[3][0] > 240


def test_real_transparency_gives_a_png(room: Darkroom) -> None:
    glass = flag(mode="RGBA")
    glass.putalpha(Image.linear_gradient("L").resize(glass.size))
    made = room.develop(encoded(glass, "PNG"), "png")
    assert made.fallback_type == "image/png"
    assert pyvips.Image.new_from_buffer(made.parts["master.avif"], "").hasalpha()


def test_alpha_that_hides_nothing_counts_as_none(room: Darkroom) -> None:
    made = room.develop(encoded(noisy().convert("RGBA"), "PNG"), "png")
    assert made.fallback_type == "image/jpeg"
    assert not pyvips.Image.new_from_buffer(made.parts["master.avif"], "").hasalpha()


def test_flat_art_gets_the_smaller_png(room: Darkroom) -> None:
    art = flag(600, 400)
    for x in range(0, 600, 12):
        art.paste((20, 20, 30), (x, 0, x + 2, 400))
    made = room.develop(encoded(art, "PNG"), "png")
    assert made.fallback_type == "image/png"
    assert len(made.parts["master.png"]) < len(encoded(art, "JPEG", quality=90))


def test_a_large_picture_is_fitted_and_a_small_one_is_not_enlarged(room: Darkroom) -> None:
    tall = room.develop(encoded(flag(400, 4000), "JPEG", exif=exif(6)), "jpeg")
    assert (tall.width, tall.height) == (3840, 384)
    tiny = room.develop(encoded(flag(1, 1), "PNG"), "png")
    assert (tiny.width, tiny.height) == (1, 1)


def test_a_broken_colour_profile_does_not_cost_the_picture(room: Darkroom) -> None:
    made = room.develop(encoded(flag(), "JPEG", quality=95, subsampling=0, icc_profile=b"nonsense" * 40), "jpeg")
    assert_is_the_flag(made)


def test_the_two_profiles_differ(room: Darkroom) -> None:
    from postroom.settings import load

    exact = Darkroom(load(media_profile="seed", media_concurrency=1))
    try:
        source = encoded(noisy(), "PNG")
        assert exact.develop(source, "png").parts["master.avif"] != room.develop(source, "png").parts["master.avif"]
    finally:
        exact.close()
