"""Pictures: `postroom media optimise` beside npm sharp, on the same photographs, in turns."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.effort import Cost, cost_of
from benchmarks.photos import SOURCE, gather
from benchmarks.table import Table

TITLE = "Media"
ROUNDS = 2
SHARP, JUDGE = "sharp@0.35", "ssimulacra2==0.3.0"
CROP = (700, 500)  # the judge is slow: a large picture is judged by its middle


@dataclass
class Peer:
    """One way to make an AVIF and a fallback, and what it took, by picture."""

    name: str
    quality: tuple[int, int] | None = None  # sharp's quality and effort; none for ours
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    files: dict[str, dict[str, Path]] = field(default_factory=dict)
    likeness: dict[str, float] = field(default_factory=dict)

    def cpu(self, picture: str) -> float:
        return statistics.median(cost.cpu for cost in self.costs[picture])

    def peak(self, picture: str) -> int:
        return max(cost.peak for cost in self.costs[picture])

    def size(self, picture: str, kind: str) -> int:
        return self.files[picture][kind].stat().st_size


def measure() -> Table:
    """CPU, memory, bytes and likeness of each peer by picture; then a picture that comes a second time."""
    work = Path(tempfile.mkdtemp(prefix="postroom-bench-media-"))
    work.chmod(0o755)
    try:
        photos = gather(work / "photos")
        _install_sharp(work / "peers")
        peers = [Peer("postroom"), Peer("sharp q85 effort 4", (85, 4)), Peer("sharp q86 effort 3", (86, 3))]
        for number in range(ROUNDS):
            for photo in photos:
                for peer in peers:
                    _turn(peer, photo, work, number)
        _judge(peers, photos, work)
        return _table(peers, photos, _again(photos[-1], work / "again"))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _install_sharp(folder: Path) -> None:
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}')
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", SHARP], cwd=folder, check=True, timeout=180
    )


def _turn(peer: Peer, photo: Path, work: Path, number: int) -> None:
    out = work / f"{peer.name.replace(' ', '-')}-{photo.stem}-{number}"
    if peer.quality is None:
        code = "from cli.main import run; run()"
        argv = [sys.executable, "-c", code, "media", "optimise", str(photo), "--out", str(out), "--json"]
        cost = cost_of(argv)
        (master,) = out.glob("*/master.avif")
        made = {"avif": master, "fallback": next(path for path in master.parent.glob("master.*") if path != master)}
    else:
        script = Path(__file__).with_name("sharp.mjs")
        cost = cost_of(
            ["node", str(script), str(photo), str(out), *map(str, peer.quality)], {"PEERS": str(work / "peers")}
        )
        fallback = next(path for path in (Path(f"{out}.jpg"), Path(f"{out}.png")) if path.exists())
        made = {"avif": Path(f"{out}.avif"), "fallback": fallback}
    peer.costs.setdefault(photo.name, []).append(cost)
    peer.files[photo.name] = made


def _judge(peers: list[Peer], photos: list[Path], work: Path) -> None:
    """ssimulacra2 of every AVIF against the photograph it was made of."""
    pairs, places = [], []
    for photo in photos:
        original = _middle(photo, work / f"judge-{photo.stem}.png")
        for number, peer in enumerate(peers):
            pairs += [original, _middle(peer.files[photo.name]["avif"], work / f"judge-{photo.stem}-{number}.png")]
            places.append((peer, photo.name))
    script = Path(__file__).with_name("likeness.py")
    argv = ["uv", "run", "--quiet", "--no-project", "--with", JUDGE, "python", str(script), *pairs]
    scores = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300, cwd=work).stdout.split()
    for (peer, picture), score in zip(places, scores, strict=True):
        peer.likeness[picture] = float(score)


def _middle(picture: Path, path: Path) -> str:
    import pyvips

    image = pyvips.Image.new_from_file(str(picture)).autorot()
    if "icc-profile-data" in image.get_fields():
        image = image.icc_transform("srgb")
    image = image.extract_band(0, n=3)
    width, height = min(CROP[0], image.width), min(CROP[1], image.height)
    image.crop((image.width - width) // 2, (image.height - height) // 2, width, height).pngsave(str(path))
    return str(path)


def _again(photo: Path, out: Path) -> tuple[float, float]:
    """Seconds for a picture, and for the same picture once more, in one process as a worker is."""
    script = f"""
import json, statistics, time
from pathlib import Path
from postroom.media.darkroom import darkroom
from postroom.media.prepare import prepare_now
from postroom.media.result import MediaFile
from postroom.media.shelves import FolderShelf
from postroom.media.store import MediaStore
file, took = MediaFile("a.jpg", Path({str(photo)!r}).read_bytes()), []
store = MediaStore(FolderShelf(Path({str(out)!r})))
for number in range(21):
    begun = time.perf_counter()
    (result,) = prepare_now([file], store, message_id=f"m{{number}}")
    took.append(time.perf_counter() - begun)
    assert result.reused == (number > 0)
print(json.dumps([took[0], statistics.median(took[1:])]))
"""
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    first, later = json.loads(ran.stdout)
    return first, later


def _table(peers: list[Peer], photos: list[Path], again: tuple[float, float]) -> Table:
    ours, exact, same = peers
    table = Table(["picture", "", "CPU s", "of sharp's", "AVIF bytes", "fallback", "ssimulacra2", "peak MB"])
    for photo in photos:
        for peer in peers:
            name = photo.name
            table.rows.append(
                [
                    name if peer is ours else "",
                    peer.name,
                    f"{peer.cpu(name):.2f}",
                    "" if peer is ours else f"{ours.cpu(name) / peer.cpu(name):.0%}",
                    f"{peer.size(name, 'avif'):,}",
                    f"{peer.size(name, 'fallback'):,}",
                    f"{peer.likeness[name]:.1f}",
                    f"{peer.peak(name) / 1e6:.0f}",
                ]
            )
    names = [photo.name for photo in photos]

    def total(peer: Peer) -> float:
        return sum(peer.cpu(name) for name in names)

    def weight(peer: Peer) -> int:
        return sum(peer.size(name, "avif") for name in names)

    apart = [ours.likeness[name] - exact.likeness[name] for name in names]
    identical = all(ours.files[n]["avif"].read_bytes() == same.files[n]["avif"].read_bytes() for n in names)
    goals = [
        (f"CPU {total(ours) / total(exact):.0%} of sharp's at q85 effort 4 (≤ 33%)", total(ours) <= total(exact) / 3),
        (
            f"likeness {statistics.mean(apart):+.1f} points in the mean, {min(apart):+.1f} at worst (≥ -0.5, ≥ -1)",
            statistics.mean(apart) >= -0.5 and min(apart) >= -1,
        ),
        (f"AVIF bytes {weight(ours) / weight(exact) - 1:+.0%} (≤ +10%)", weight(ours) <= 1.1 * weight(exact)),
        ("peak memory not higher", all(ours.peak(name) <= exact.peak(name) for name in names)),
        (f"a repeated picture {again[0] / again[1]:.0f}× faster (≥ 100×)", again[0] >= 100 * again[1]),
    ]
    table.sentences = [
        f"Photographs of the {SOURCE} wheel, and one of 6 megapixels put together of them; each picture in a process "
        f"of its own, start included, {ROUNDS} rounds in turns, median CPU of the process and all it started; peak: "
        f"proportional memory of all its processes together, sampled. Likeness by {JUDGE} (of the largest its middle).",
        f"At the same settings (q86 effort 3) sharp takes {total(same):.1f} CPU s to our {total(ours):.1f} (starting "
        "Python twice and a confined child for each picture are the difference); its AVIFs are "
        f"{'the same bytes' if identical else 'alike, not the same bytes'}: the gain is the profile's, see "
        f"[the decision](decisions/avif-profile.md). A picture that comes again: {again[0]:.2f} s, then "
        f"{again[1] * 1000:.1f} ms.",
        "Goals: " + " · ".join(f"{'✓' if reached else '✗'} {goal}" for goal, reached in goals),
    ]
    return table
