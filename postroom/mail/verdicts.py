"""What the receiving host found out about a mail. Only its own words count, not those the sender wrote.

SES puts its lines above everything the sender sent:

    Return-Path:
    Received: from … by inbound-smtp… for project+user@…     ← the receiving host's
    X-SES-Spam-Verdict: PASS
    X-SES-Virus-Verdict: PASS
    Authentication-Results: amazonses.com; spf=…; dkim=…; dmarc=…
    ──────────────────────────────────────────────────────
    Received: …                                              ← from here down: the sender's world
    Authentication-Results: amazonses.com; dmarc=pass        ← a forgery, not read

So nothing is read below the first line that a receiving host does not write. Above it a host repeats words
of the sender (the name given in HELO, the return path); words that could pass for results void them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from postroom.mail.words import unfold

SES = "amazonses.com"
_METHODS = frozenset(("spf", "dkim", "dmarc", "arc", "auth", "iprev", "dkim-adsp", "sender-id", "domainkeys", "bimi"))
# a value goes on to the next blank: in `"a@b.example"@c.example` the domain is the last one
_PAIR = re.compile(r'(?<![A-Za-z0-9_.-])([A-Za-z0-9_.-]+)\s*=\s*((?:"(?:[^"\\]|\\.)*+"|[^\s;"])++)')
# what a receiving host writes on top; a line of any other name is the sender's, and so is all below it
_TRACE = re.compile(r"return-path|received|received-spf|authentication-results|delivered-to|x-original-to|x-ses-.+")
_DISGUISED = re.compile(r'[\s;("\\]')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')


@dataclass(frozen=True)
class Result:
    """One finding: method, result, and what it was found about."""

    method: str
    result: str
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdicts:
    """All findings of the receiving host."""

    results: tuple[Result, ...] = ()
    spam: str | None = None
    virus: str | None = None
    found: bool = False  # whether the receiving host said anything on authentication

    def of(self, method: str) -> list[Result]:
        return [result for result in self.results if result.method == method]

    def summary(self) -> dict[str, str | None]:
        """One word for each check; of several signatures a good one counts."""
        words: dict[str, str | None] = {}
        for method in ("spf", "dkim", "dmarc"):
            said = [result.result for result in self.of(method)]
            words[method] = ("pass" if "pass" in said and method == "dkim" else said[0]) if said else None
        return {**words, "spam": self.spam, "virus": self.virus}


def read(header: Iterable[tuple[str, str]], receiving_host: str = SES) -> Verdicts:
    """The receiving host's findings, from the lines it put on top."""
    received: str | None = None
    path = ""
    spam: str | None = None
    virus: str | None = None
    spoken: str | None = None
    for name, value in header:
        key = name.lower()
        if not _TRACE.fullmatch(key) or (key == "received" and received is not None):
            break  # written before the mail reached us
        if key == "received":
            received = value
        elif key == "return-path":
            path = path or value
        elif key == "x-ses-spam-verdict":
            spam = spam if spam is not None else _word(value)
        elif key == "x-ses-virus-verdict":
            virus = virus if virus is not None else _word(value)
        elif key == "authentication-results" and spoken is None:
            spoken = value
    host, results = parse(spoken) if spoken is not None else ("", ())
    if host != receiving_host.lower():
        return Verdicts((), spam, virus, False)
    if _disguised(received or "", path) or _contradictory(results):
        results = ()
    return Verdicts(results, spam, virus, True)


def _disguised(received: str, path: str) -> bool:
    """Whether the sender's HELO or return path holds what could pass for results where the host repeats it."""
    if _DISGUISED.search(unfold(path).strip().strip("<>")):
        return True
    segments = _segments(unfold(received))  # `from HELO (…) by HOST …; date`
    words = segments[0].split() if segments else []
    if segments is None or len(segments) > 2:
        return True
    if words[:1] != ["from"]:
        return False
    return words[2:3] != ["by"] or words.count("by") > 1 or bool(re.search(r'["=\\]', words[1]))


def _contradictory(results: tuple[Result, ...]) -> bool:
    """Whether a method says both that there was nothing to check and that it passed: one of them is a stranger's."""
    said = {(result.method, result.result) for result in results}
    return any((method, "none") in said and (method, "pass") in said for method in _METHODS)


def _word(value: str) -> str:
    return " ".join(_segments(unfold(value)) or ()).strip().lower()[:40]


def parse(value: str) -> tuple[str, tuple[Result, ...]]:
    """The host that speaks and its results (RFC 8601; SES puts properties of SPF into segments of their own).

    The host may repeat what a stranger wrote, such as a quoted address. When quotes or comments don't add up,
    nobody can say which words are the host's: then there are no results.
    """
    value = unfold(value)
    segments = _segments(value)
    if segments is None:
        return _host(value.partition(";")[0]), ()
    results: list[Result] = []
    for segment in segments[1:100]:
        pairs = [(k.lower(), _plain(v)) for k, v in _PAIR.findall(re.sub(r"/\s*\d+\s*=", "=", segment))]
        if not pairs:
            continue
        if pairs[0][0] in _METHODS:
            method, result = pairs.pop(0)
            results.append(Result(method, result.lower(), {}))
        if results:
            for key, text in pairs:
                results[-1].about.setdefault(key, text)
    return _host(segments[0]), tuple(results)


def _host(segment: str) -> str:
    words = segment.split(maxsplit=1)
    return words[0].strip('"').lower() if words else ""


def _plain(value: str) -> str:
    """The value without its quotes, when it is quoted as a whole."""
    whole = _QUOTED.fullmatch(value)
    return whole[1] if whole else value


def _segments(value: str) -> list[str] | None:
    """The value without its (nested) comments, cut at its semicolons; None when a quote or comment does not end.

    A quote that begins in one comment and ends in another is a stranger's, who closed the host's comment.
    """
    out: list[str] = []
    held: list[str] = []
    depth = 0
    quoted = escaped = False
    for ch in value:
        if escaped:
            escaped = False
        elif ch == "\\" and (quoted or depth):
            escaped = True
        elif ch == '"':
            quoted = not quoted
        elif depth:
            depth += (ch == "(") - (ch == ")")
            if not depth:
                if quoted:
                    return None
                continue
        elif quoted:
            pass
        elif ch == "(":
            depth = 1
            held.append(" ")
        elif ch == ";":
            out.append("".join(held))
            held = []
            continue
        if not depth:
            held.append(ch)
    return None if quoted or depth or escaped else [*out, "".join(held)]
