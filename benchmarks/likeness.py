"""ssimulacra2 of pairs of pictures: ORIGINAL COPY …; one number a line. Runs in an environment of its own."""

from __future__ import annotations

import sys


def main(paths: list[str]) -> None:
    from ssimulacra2 import compute_ssimulacra2  # type: ignore[import-not-found]

    for original, copy in zip(paths[::2], paths[1::2], strict=True):
        print(f"{compute_ssimulacra2(original, copy):.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
