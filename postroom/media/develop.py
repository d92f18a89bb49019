"""What happens to one picture: opened, turned upright, fitted, brought to sRGB, saved as masters.

Runs only inside a child of the fork server. Everything here treats the picture as hostile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from postroom.media import animation, colour, salvage
from postroom.media.opening import Opened, Unusable, load_decoders, load_decoders_of, open_picture

__all__ = ["Masters", "answer", "develop", "load_decoders", "load_decoders_of"]

EDGE = 3840
# Same quality as q85 effort 4 at a quarter of its CPU: docs/decisions/avif-profile.md
AVIF: dict[str, dict[str, int]] = {"balanced": {"Q": 86, "effort": 3}, "seed": {"Q": 85, "effort": 4}}
JPEG: dict[str, Any] = {
    "Q": 90,
    "optimize_coding": True,
    "interlace": True,
    "trellis_quant": True,
    "overshoot_deringing": True,
    "optimize_scans": True,
    "quant_table": 3,
    "subsample_mode": "on",
    "keep": "none",
}
LOSSLESS = frozenset({"png", "gif", "bmp", "tiff", "webp"})


@dataclass
class Masters:
    """A developed picture: its files, and what a page needs to know about it."""

    width: int | None = None
    height: int | None = None
    fallback_type: str | None = None
    animated: bool = False
    parts: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def answer(head: dict[str, Any], source: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The reply to one job: masters, or an `error` that says why there are none."""
    try:
        if head["format"] == "svg":
            from postroom.media import svg

            text, warnings = svg.sanitise(source)
            return {"warnings": warnings}, {"document": text}
        made = develop(source, head["format"], head["profile"], int(head["max_pixels"]), int(head["threads"]))
    except Unusable as error:
        return {"error": str(error)}, {}
    except MemoryError:
        return {"error": "it needs more memory than a picture may use"}, {}
    except Exception as error:
        return {"error": f"it can't be decoded ({colour.first_line(error)})"}, {}
    parts = made.parts
    return {
        "width": made.width,
        "height": made.height,
        "fallback_type": made.fallback_type,
        "animated": made.animated,
        "warnings": made.warnings,
    }, parts


def develop(source: bytes, form: str, profile: str, max_pixels: int, threads: int = 0) -> Masters:
    """The masters of a picture; raises Unusable with a reason a sender understands."""
    opened = open_picture(source, form, max_pixels, threads)
    made = Masters(warnings=list(opened.warnings))
    image = _fit(opened, made)
    made.width, made.height = image.width, image.height
    transparent = image.hasalpha()
    made.parts["master.avif"] = image.heifsave_buffer(
        compression="av1", bitdepth=8, subsample_mode="off", keep="none", **AVIF[profile]
    )
    name, made.parts[name] = _fallback(image, transparent, form, len(source))
    made.fallback_type = "image/png" if name.endswith("png") else "image/jpeg"
    if opened.pages > 1:
        _keep_animation(source, form, opened, max_pixels, made)
    return made


def _fit(opened: Opened, made: Masters) -> Any:
    """The picture upright, inside the edge, 8-bit sRGB or grey, in memory, without idle alpha."""
    import pyvips

    def attempt(fail_on: str) -> Any:
        image = colour.to_srgb(opened, EDGE, fail_on, made.warnings)
        return image.copy_memory()

    try:
        image = attempt("warning")
    except pyvips.Error as error:
        complaint = colour.first_line(error)
        made.warnings[:] = opened.warnings
        try:
            image = attempt("none")
        except pyvips.Error as second:
            raise Unusable(f"it is damaged and can't be decoded ({colour.first_line(second)})") from None
        if salvage.mostly_blank(image):
            raise Unusable(f"it is damaged and too little of it can be seen ({complaint})") from None
        made.warnings.append(f"it is damaged; what could be read of it was used ({complaint})")
    if image.hasalpha() and image.extract_band(image.bands - 1).min() == 255:
        image = image.extract_band(0, n=image.bands - 1).copy_memory()
    return image


def _fallback(image: Any, transparent: bool, form: str, source_size: int) -> tuple[str, bytes]:
    """PNG where there is transparency or where it is smaller (flat art); JPEG for the rest."""
    if transparent:
        return "master.png", image.pngsave_buffer(keep="none")
    jpeg: bytes = image.jpegsave_buffer(**JPEG)
    # a lossless source tells what a PNG will weigh: no need to try it on a photograph
    if form in LOSSLESS and source_size < 2 * len(jpeg):
        png: bytes = image.pngsave_buffer(keep="none")
        if len(png) < len(jpeg):
            return "master.png", png
    return "master.jpg", jpeg


def _keep_animation(source: bytes, form: str, opened: Opened, max_pixels: int, made: Masters) -> None:
    if opened.width * opened.height * opened.pages > max_pixels:
        made.warnings.append(
            f"its animation is too large ({opened.pages} frames of {opened.width}×{opened.height}); "
            "only a still picture was kept"
        )
        return
    kept = animation.without_metadata(source, form)
    if kept is None:
        made.warnings.append("its animation is damaged; only a still picture was kept")
        return
    made.animated = True
    made.parts[f"animation.{form}"] = kept
