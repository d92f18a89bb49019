"""A picture opened: its header read and found small enough, its pixels not decoded yet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from postroom.media import animation

# the only loaders that exist in a child; everything else libvips knows is switched off
LOADERS = ("Jpeg", "Png", "Webp", "Heif", "Nsgif", "Tiff")
_LONGEST = 65_500  # beyond it nothing is a picture for a page


class Unusable(Exception):
    """The picture can't be used; the text says why, to be read after its name."""


@dataclass
class Opened:
    """A picture whose header was read. `thumbnail` decodes it, upright and fitted."""

    width: int
    height: int
    pages: int
    thumbnail: Callable[..., Any]
    has_profile: bool
    interpretation: str
    primaries: int | None = None  # of an nclx colour box, where there is no ICC profile
    transfer: int | None = None
    warnings: list[str] = field(default_factory=list)


def load_decoders() -> None:
    """Import libvips and switch off what is not needed. Starts no thread: forks follow."""
    import encodings.latin_1
    import encodings.utf_8_sig
    import encodings.utf_16  # noqa: F401 - Python finds codecs on first use, and a child can open no file

    import pyvips

    pyvips.cache_set_max(0)
    pyvips.operation_block_set("VipsForeignLoad", True)
    for loader in LOADERS:
        pyvips.operation_block_set(f"VipsForeignLoad{loader}", False)
    for name in ("copy", "thumbnail_image", "thumbnail_buffer", "heifsave_buffer", "jpegsave_buffer", "pngsave_buffer"):
        pyvips.voperation.Introspect.get(name)


@functools.cache
def load_decoders_of(form: str) -> None:
    """Import what only this format needs, once: most mails bring neither drawings nor HEIC."""
    if form == "svg":
        from postroom.media import svg

        svg.sanitise(b'<svg xmlns="http://www.w3.org/2000/svg"><g/></svg>')
    if form in ("heif", "bmp"):
        import io

        import PIL.BmpImagePlugin
        import PIL.Image

        tiny = io.BytesIO()
        PIL.Image.new("RGB", (1, 1)).save(tiny, "BMP")
        PIL.Image.open(io.BytesIO(tiny.getvalue()), formats=["BMP"]).load()
    if form == "heif":
        import pillow_heif  # noqa: F401


def open_picture(source: bytes, form: str, max_pixels: int, threads: int) -> Opened:
    """The picture with its header read; raises Unusable when it is too large or no picture."""
    import pyvips

    if threads:
        pyvips.concurrency_set(threads)
    if form == "heif":
        return _through_pillow_heif(source, max_pixels)
    if form == "bmp":
        return _through_pillow(source, max_pixels)
    try:
        header = pyvips.Image.new_from_buffer(source, "", access="sequential")
    except pyvips.Error as error:
        raise Unusable(f"it can't be read ({_line(error)})") from None
    _check(header.width, header.height, max_pixels)
    pages = header.get("n-pages") if form in ("gif", "webp") and "n-pages" in header.get_fields() else 1
    if form == "png":
        pages = animation.frames_of_png(source)
    profile = "icc-profile-data" in header.get_fields()
    primaries, transfer = colour_box(source) if form == "avif" and not profile else (None, None)

    def thumbnail(edge: int, fail_on: str = "warning", **options: Any) -> Any:
        # thumbnail_buffer takes a fail_on of its own but does not pass it on to the loader
        strictly = f"[fail_on={fail_on}]"
        return pyvips.Image.thumbnail_buffer(source, edge, height=edge, size="down", option_string=strictly, **options)

    return Opened(header.width, header.height, pages, thumbnail, profile, header.interpretation, primaries, transfer)


def _through_pillow_heif(source: bytes, max_pixels: int) -> Opened:
    """HEIC: libheif turns it upright itself and gives 8 bits; its EXIF orientation must not count again."""
    import pillow_heif

    try:
        heif = pillow_heif.open_heif(source, convert_hdr_to_8bit=True)
    except Exception as error:
        raise Unusable(f"it can't be read as HEIC ({_line(error)})") from None
    width, height = heif.size
    _check(width, height, max_pixels)
    icc = heif.info.get("icc_profile")
    nclx = heif.info.get("nclx_profile") or {}

    def thumbnail(edge: int, fail_on: str = "warning", **options: Any) -> Any:
        try:
            upright = heif.to_pillow()
        except Exception as error:
            raise Unusable(f"it is damaged and can't be decoded ({_line(error)})") from None
        return from_pillow(upright, icc).thumbnail_image(edge, height=edge, size="down", **options)

    return Opened(
        width,
        height,
        1,
        thumbnail,
        bool(icc),
        "srgb",
        None if icc else nclx.get("color_primaries"),
        None if icc else nclx.get("transfer_characteristics"),
    )


def _through_pillow(source: bytes, max_pixels: int) -> Opened:
    """BMP: libvips has no reader of its own."""
    import io

    import PIL.Image

    try:
        picture = PIL.Image.open(io.BytesIO(source), formats=["BMP"])
    except Exception as error:
        raise Unusable(f"it can't be read ({_line(error)})") from None
    width, height = picture.size
    _check(width, height, max_pixels)

    def thumbnail(edge: int, fail_on: str = "warning", **options: Any) -> Any:
        try:
            picture.load()
        except Exception as error:
            raise Unusable(f"it is damaged and can't be decoded ({_line(error)})") from None
        return from_pillow(picture, None).thumbnail_image(edge, height=edge, size="down", **options)

    return Opened(width, height, 1, thumbnail, False, "srgb")


def from_pillow(picture: Any, icc: bytes | None) -> Any:
    """Pillow's pixels as a libvips image, with the colour profile if there is one."""
    import pyvips

    bands = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
    if picture.mode not in bands:
        alpha = "A" in picture.mode or "transparency" in picture.info
        picture = picture.convert("RGBA" if alpha else "RGB")
    count = bands[picture.mode]
    image = pyvips.Image.new_from_memory(picture.tobytes(), picture.width, picture.height, count, "uchar")
    image = image.copy(interpretation="b-w" if count < 3 else "srgb")
    if icc:
        image.set_type(pyvips.GValue.blob_type, "icc-profile-data", icc)
    return image


def colour_box(source: bytes) -> tuple[int | None, int | None]:
    """Primaries and transfer of the first nclx box of an AVIF, which libvips does not tell."""
    at = source.find(b"colrnclx", 0, 1 << 16)
    if at < 0 or len(source) < at + 12:
        return None, None
    return int.from_bytes(source[at + 8 : at + 10], "big"), int.from_bytes(source[at + 10 : at + 12], "big")


def _check(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise Unusable(
            f"it is {width}×{height} pixels, more than the {max_pixels // 1_000_000} megapixels a picture may have"
            if max_pixels >= 1_000_000
            else f"it is {width}×{height} pixels, more than the {max_pixels} a picture may have"
        )
    if max(width, height) > _LONGEST:
        raise Unusable(f"it is {width}×{height} pixels; no side may be longer than {_LONGEST}")


def _line(error: BaseException) -> str:
    from postroom.media.colour import first_line

    return first_line(error)
