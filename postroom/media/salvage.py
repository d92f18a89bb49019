"""How much of a damaged picture is left to be seen."""

from __future__ import annotations

from typing import Any

_ACROSS = 64
_ENOUGH = 0.2  # of the rows


def mostly_blank(image: Any) -> bool:
    """True when hardly a row holds anything: a decoder fills what it could not read with one colour.

    Rows are looked at as they are, never averaged: what is left of an interlaced picture
    is every eighth row, and a smaller copy would smear it over all the others.
    """
    thin = image.subsample(max(1, image.width // _ACROSS), 1)
    pixels, bands = bytes(thin.write_to_memory()), thin.bands
    width = thin.width * bands
    alive = 0
    for at in range(0, len(pixels), width):
        row = pixels[at : at + width]
        alive += any(max(row[band::bands]) - min(row[band::bands]) > 2 for band in range(bands))
    return bool(alive < _ENOUGH * image.height)
