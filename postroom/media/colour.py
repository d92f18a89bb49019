"""Colours as the sender saw them: to 8-bit sRGB or grey, with the picture's own profile applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from postroom.media.opening import Opened

_P3, _BT2020 = (11, 12), 9
_HDR_TRANSFER = (16, 18)  # PQ, HLG


def to_srgb(opened: Opened, edge: int, fail_on: str, warnings: list[str]) -> Any:
    """The picture upright and fitted, in sRGB or grey, 8 bits a channel."""
    import pyvips

    options: dict[str, Any] = {"fail_on": fail_on}
    # a profile where none is needed would only cost: the transform doubles the CPU of decoding
    if opened.has_profile or opened.interpretation == "cmyk":
        try:
            image = opened.thumbnail(edge, output_profile="srgb", **options)
            return in_eight_bits(image).copy_memory()
        except pyvips.Error:
            if not opened.has_profile or opened.interpretation == "cmyk":
                raise
            # the profile may be what is broken: once more without it, and a real fault shows again
            image = opened.thumbnail(edge, **options).copy_memory()
            warnings.append("its colour profile can't be read; colours may be a little off")
    else:
        image = opened.thumbnail(edge, **options)
    image = in_eight_bits(image)
    if opened.primaries in _P3 and image.bands >= 3:
        image = from_p3(image)
    if opened.transfer in _HDR_TRANSFER or opened.primaries == _BT2020:
        warnings.append("it is a high dynamic range picture; its colours are approximate")
    return image


def in_eight_bits(image: Any) -> Any:
    """The same picture as sRGB or grey in 8 bits, alpha scaled along."""
    if image.interpretation == "grey16":
        image = image.colourspace("b-w")
    elif image.interpretation not in ("srgb", "b-w"):
        image = image.colourspace("srgb")
    if image.format != "uchar":
        image = image.cast("uchar")
    return image


def from_p3(image: Any) -> Any:
    """Display-P3 pixels without an ICC profile, in sRGB."""
    alpha = image.extract_band(image.bands - 1) if image.hasalpha() else None
    colours = image.extract_band(0, n=3).icc_transform("srgb", input_profile="p3", embedded=False)
    return colours.bandjoin(alpha) if alpha is not None else colours


def first_line(error: BaseException) -> str:
    """What a decoder complained about, short, on one line, printable."""
    text = getattr(error, "detail", None) or str(error) or type(error).__name__
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = next((part.strip() for part in str(text).splitlines() if part.strip()), type(error).__name__)
    return "".join(c if c.isprintable() else " " for c in line)[:160]
