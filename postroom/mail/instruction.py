"""What the sender wants done: the text without quoted history, signature and phone footers."""

from __future__ import annotations

import re

from postroom.mail.phrases import (
    BARE,
    BLOCK_KEYS,
    DATED,
    EVIDENCE,
    FORWARD_SUBJECT,
    FORWARDED,
    FORWARDING,
    MOBILE,
    ORIGINAL,
    STARTS,
    WROTE,
)

_QUOTE = re.compile(r"^\s{0,3}>")
_RULE = re.compile(r"^\s*[_*=-]{5,}\s*$|^\s*_{3,}\s*$")
_ARMOUR = re.compile(r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:[A-Za-z-]+: .*\n)*\n", re.M)
_ENDS = (":", ":*", "：")  # of an introduction
_FOLDED = 4  # lines an introduction may take
_RULERS = frozenset("-_–—=*")  # what a line such as `-----Original Message-----` begins with
_LONGEST = 400  # characters of an introduction, folded over a few lines
SIGNATURE_LINES = 12
MAX_BYTES = 200_000  # nobody instructs at greater length, and it must fit into the book (a row holds 400 KB)


def of(text: str) -> str:
    """The instruction in a text; never empty when the text is not."""
    text = _cut(text.lstrip()).replace("\r\n", "\n").replace("\r", "\n")
    whole = text.strip()
    if not whole:
        return ""
    lines = _without_armour(text).split("\n")
    fresh, _ = _without_history(lines)
    for step in (lambda kept: _without_footers(_without_signature(kept)), _without_footers, lambda kept: kept):
        found = _joined(step(fresh))
        if found:
            return found
    # nothing but history: a bare quote or a forward is then what the sender says
    return _joined([line for line in lines if not _RULE.match(line)]) or whole


def forwarded(text: str, subject: str = "") -> str:
    """What the sender passes on below words of their own; "" when there is nothing, or when it is the instruction."""
    text = _cut(text.lstrip()).replace("\r\n", "\n").replace("\r", "\n")
    lines = _without_armour(text).split("\n")
    fresh, end = _without_history(lines)
    if end >= len(lines) or not _joined(fresh):
        return ""
    mark = lines[end]
    by_mark = (ORIGINAL.match(mark.strip()) or FORWARDED.match(mark.strip())) and FORWARDING.search(mark)
    return _joined(lines[end:]) if by_mark or FORWARD_SUBJECT.match(subject) else ""


def was_cut(text: str) -> bool:
    """Whether only the beginning of the text is read for its instruction."""
    return len(text) > MAX_BYTES // 4 and len(_cut(text.lstrip())) < len(text.strip())


def _cut(text: str) -> str:
    return text[:MAX_BYTES].encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore")


def _joined(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip()


def _without_armour(text: str) -> str:
    """The text of an inline PGP signature."""
    begin = _ARMOUR.search(text) if "-----BEGIN PGP SIGNED" in text else None
    if begin is None:
        return text
    end = text.find("\n-----BEGIN PGP SIGNATURE-----", begin.end())
    inner = text[begin.end() : end if end >= 0 else len(text)]
    return text[: begin.start()] + re.sub(r"^- (?=-)", "", inner, flags=re.M)


def _without_history(lines: list[str]) -> tuple[list[str], int]:
    """What is the sender's own, and the line where the history begins that goes on to the end."""
    kept: list[str] = []
    index, count = 0, len(lines)
    colons = [number for number, line in enumerate(lines) if line.rstrip().endswith(_ENDS)]
    colons.append(count + _FOLDED)
    ahead = 0  # the first of them that is not behind us
    while index < count:
        line = lines[index].strip()
        if _QUOTE.match(lines[index]):
            index += 1
            continue
        while colons[ahead] < index:
            ahead += 1
        if colons[ahead] - index >= _FOLDED and ":" not in line and line[:1] not in _RULERS:
            kept.append(lines[index])  # nearly every line: nothing can begin here
            index += 1
            continue
        if line and (ORIGINAL.match(line) or FORWARDED.match(line) or _is_block(lines, index)):
            break
        length = _introduction(lines, index) if line else 0
        if length:
            after = index + length
            while after < count and not lines[after].strip():
                after += 1
            if after < count and not _QUOTE.match(lines[after]):
                break  # the history is not marked: all the rest is it
            index = after
            continue
        kept.append(lines[index])
        index += 1
    while kept and (not kept[-1].strip() or _RULE.match(kept[-1])):
        kept.pop()
    return kept, index


def _is_block(lines: list[str], index: int) -> bool:
    """Whether Outlook's From/Sent/To/Subject block begins here."""
    if not BLOCK_KEYS["from"].match(lines[index]):
        return False
    found: dict[str, str] = {"from": lines[index]}
    for line in [item for item in lines[index + 1 : index + 12] if item.strip()][:6]:
        found |= {kind: line for kind, pattern in BLOCK_KEYS.items() if kind not in found and pattern.match(line)}
    if len(found) < 3:
        return False
    # people write such lines too: `From: Monday`, `To: Friday`, `Cc: the baker`
    if "sent" in found and "subject" in found:
        return True
    return any("@" in line for kind, line in found.items() if kind != "subject") or bool(
        DATED.search(found.get("sent", ""))
    )


def _introduction(lines: list[str], index: int) -> int:
    """How many lines an "On … wrote:" takes that begins here; 0 when there is none."""
    first = lines[index].strip()
    if len(first) > _LONGEST:
        return 0
    if BARE.match(first):
        return 1
    begins = bool(STARTS.match(first))
    joined = ""
    for length in range(1, _FOLDED + 1 if begins else 3):
        if index + length > len(lines):
            break
        line = lines[index + length - 1].strip()
        if not line or _QUOTE.match(line):
            break
        joined = f"{joined} {line}".strip()
        if len(joined) > _LONGEST:
            break
        if not joined.endswith(_ENDS) or not WROTE.search(joined):
            continue
        quoted = _quote_follows(lines, index + length)
        marks = bool(EVIDENCE.search(joined))
        # a sentence such as "as my colleague wrote:" is no introduction unless a quote follows it
        if (begins or length == 1 or "@" in joined) and marks and (begins or "@" in joined or quoted):
            return length
        if quoted and length == 1 and len(joined) < 120:
            return length
    return 0


def _quote_follows(lines: list[str], index: int) -> bool:
    following = next((line for line in lines[index : index + 4] if line.strip()), "")
    return bool(_QUOTE.match(following))


def _without_signature(lines: list[str]) -> list[str]:
    rest = sum(1 for line in lines if line.strip())  # lines that come after this one and are not empty
    for index, line in enumerate(lines):
        bare = line.rstrip("\n\r")
        rest -= bool(line.strip())
        strict = bare == "-- "
        if not strict and bare.strip() not in ("--", "—", "– –", "-- --"):
            continue
        if strict or rest <= SIGNATURE_LINES:
            return lines[:index]
    return lines


def _without_footers(lines: list[str]) -> list[str]:
    kept = list(lines)
    while kept:
        last = kept[-1].strip()
        if len(last) > _LONGEST:
            break
        bare = re.sub(r"\s*[<((?:https?|mailto):[^\s<>()]*[>)]", "", last).strip("*_ ")
        if not last or _RULE.match(last) or MOBILE.match(bare):
            kept.pop()
        else:
            break
    return kept
