"""Pictures made on the spot: a flag of four colours, so that a wrong turn or a wrong colour shows."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pillow_heif
import pyvips
from PIL import Image

RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 180, 60), (30, 60, 210), (250, 250, 250)
CORNERS = (RED, GREEN, BLUE, WHITE)  # top left, top right, bottom left, bottom right
_STORED_AS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def flag(width: int = 96, height: int = 64, mode: str = "RGB") -> Image.Image:
    picture = Image.new("RGB", (width, height), RED)
    picture.paste(GREEN, (width // 2, 0, width, height // 2))
    picture.paste(BLUE, (0, height // 2, width // 2, height))
    picture.paste(WHITE, (width // 2, height // 2, width, height))
    return picture.convert(mode)


def few_colours() -> Image.Image:
    """The flag with a palette of its own."""
    return flag().quantize(4)


def noisy(width: int = 96, height: int = 64) -> Image.Image:
    """The flag with grain, as a photograph has: JPEG is smaller than PNG."""
    grain = Image.merge("RGB", [Image.effect_noise((width, height), 40) for _ in range(3)])
    return Image.blend(flag(width, height), grain, 0.25)


def exif(orientation: int = 1) -> bytes:
    """EXIF of a camera that knows where it was."""
    data = Image.Exif()
    data[0x0112], data[0x010F] = orientation, "SecretCam"
    place = data.get_ifd(0x8825)
    place[1], place[2], place[3], place[4] = "N", (52.0, 30.0, 12.5), "E", (13.0, 24.0, 1.5)
    return data.tobytes()


def encoded(picture: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def turned(orientation: int) -> bytes:
    """The upright flag as a camera held at this orientation stores it."""
    stored = flag().transpose(_STORED_AS[orientation]) if orientation in _STORED_AS else flag()
    return encoded(stored, "JPEG", quality=95, subsampling=0, exif=exif(orientation))


def as_vips(picture: Image.Image) -> Any:
    bands = len(picture.getbands())
    image = pyvips.Image.new_from_memory(picture.tobytes(), *picture.size, bands, "uchar")
    return image.copy(interpretation="srgb" if bands >= 3 else "b-w")


def heic(picture: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    pillow_heif.from_pillow(picture).save(out, quality=95, chroma=444, **options)
    return out.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims to be this large; there is hardly anything in it."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 100_000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def corners(master: bytes | Path) -> list[tuple[int, ...]]:
    """The colours in the middle of each quarter of a master, in the order of CORNERS."""
    data = master.read_bytes() if isinstance(master, Path) else master
    image = pyvips.Image.new_from_buffer(data, "")
    assert image.interpretation in ("srgb", "b-w"), image.interpretation
    assert image.format == "uchar"
    x, y = image.width // 4, image.height // 4
    return [tuple(round(v) for v in image(x * right, y * low)) for low in (1, 3) for right in (1, 3)]


def close(got: tuple[int, ...], wanted: tuple[int, ...], within: int = 14) -> bool:
    return len(got) == len(wanted) and all(abs(a - b) <= within for a, b in zip(got, wanted, strict=True))
