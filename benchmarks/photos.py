"""Real photographs to measure with: those that the scikit-image wheel carries, and a large one put together of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = "scikit-image==0.25.2"
PHOTOS = ("coffee.png", "retina.jpg", "motorcycle_left.png", "rocket.jpg")
_TILE = (500, 400)
_ACROSS, _DOWN = 6, 5


def gather(folder: Path) -> list[Path]:
    """Four pictures as they came and one of 6 megapixels, as a camera would have written it."""
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--no-deps", "--python-version", "3.11", "--target", folder, SOURCE],
        check=True,
        timeout=120,
    )
    found = [folder / "skimage" / "data" / name for name in PHOTOS]
    return [*found, _large(found, folder / "six-megapixels.jpg")]


def _large(photos: list[Path], path: Path) -> Path:
    """Tiles of the photographs at their own scale, each row turned another way, so that nothing is there twice."""
    import pyvips

    tiles = []
    for row in range(_DOWN):
        for column in range(_ACROSS):
            picture = pyvips.Image.new_from_file(str(photos[(row + column) % len(photos)])).extract_band(0, n=3)
            if row % 2:
                picture = picture.fliphor()
            if row >= 2:
                picture = picture.flipver()
            scale = max(_TILE[0] / picture.width, _TILE[1] / picture.height)
            picture = picture.resize(scale) if scale > 1 else picture
            left, top = picture.width - _TILE[0], picture.height - _TILE[1]
            tiles.append(picture.crop(left * column // (_ACROSS - 1), top * row // (_DOWN - 1), *_TILE))
    pyvips.Image.arrayjoin(tiles, across=_ACROSS).jpegsave(str(path), Q=95, subsample_mode="off")
    return path
