"""Who may speak: decided before anything in a mail is believed or acted on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from postroom.mail import verdicts
from postroom.mail.letter import Letter
from postroom.mail.verdicts import Result, Verdicts
from postroom.mail.words import lowered

# names right under a country that anyone can register below: `co.uk`, `com.au`
_SHARED = re.compile(r"^(?:ac|co|com|edu|gob|go|gov|gouv|ltd|me|ne|net|nom|or|org|plc|sch)\.[a-z]{2}$")


@dataclass(frozen=True)
class Decision:
    """May this letter speak? If not: why, and whether one answer may be sent."""

    allowed: bool
    code: str
    reason: str
    may_answer: bool = False


def may_speak(letter: Letter, senders: Iterable[str], *, receiving_host: str = verdicts.SES) -> Decision:
    """The decision for a letter to a site whose senders are these (addresses, or `*@domain`)."""
    if letter.noise:
        return Decision(False, "automatic", f"This mail is not answered: {letter.noise}.")
    if letter.from_problem or not letter.from_:
        return Decision(False, "sender-unclear", f"It is not clear who sent this: {letter.from_problem}.")
    found = verdicts.read(letter.header, receiving_host)
    if refused := _scanned(found, receiving_host):
        return refused
    if refused := _authenticated(found, letter.from_.rpartition("@")[2]):
        return refused
    if not listed(letter.from_, senders):
        return Decision(False, "not-listed", f"{letter.from_} is not on the list of senders of this site.", True)
    return Decision(True, "ok", f"{letter.from_} is on the list, and the mail really comes from there.")


def _scanned(found: Verdicts, receiving_host: str) -> Decision | None:
    for name, verdict in (("virus", found.virus), ("spam", found.spam)):
        if verdict == "pass":
            continue
        if verdict is None:
            if receiving_host.lower() == verdicts.SES:
                return Decision(False, f"{name}-unknown", f"The receiving host gave no {name} verdict.")
            continue
        return Decision(False, name, f"The receiving host's {name} check did not pass ({verdict}).")
    return None


def _authenticated(found: Verdicts, domain: str) -> Decision | None:
    if not found.found:
        return Decision(False, "unauthenticated", "The receiving host did not say whether the sender is genuine.")
    policies = found.of("dmarc")
    dmarc = policies[0] if len(policies) == 1 else None
    if dmarc is None:
        said = "no" if not policies else "more than one"
        return Decision(False, "unauthenticated", f"The receiving host gave {said} DMARC result.")
    about = dmarc.about.get("header.from", domain).strip("<>").rpartition("@")[2]
    if not same_owner(about, domain):
        return Decision(False, "unauthenticated", "The DMARC result is about another sender.")
    if dmarc.result == "pass":
        return None
    if dmarc.result != "none":
        return Decision(False, "dmarc", f"The sender could not be confirmed (dmarc={dmarc.result}).")
    if any(_vouches(result, domain) for result in (*found.of("dkim"), *found.of("spf"))):
        return None
    return Decision(
        False, "unaligned", "The sender's domain has no DMARC policy, and neither DKIM nor SPF passed for that domain."
    )


def _vouches(result: Result, domain: str) -> bool:
    """Whether a passed DKIM or SPF check is about the domain in From."""
    if result.result != "pass":
        return False
    names = ("header.d", "header.i") if result.method == "dkim" else ("smtp.mailfrom", "smtp.mail", "envelope-from")
    said = next((result.about[name] for name in names if result.about.get(name)), "")
    checked = said.strip("<>").rpartition("@")[2]
    return bool(checked) and same_owner(checked, domain)


def same_owner(one: str, other: str) -> bool:
    """Whether two domains are the same or one lies under the other (and the upper one is nobody's in particular)."""
    a, b = canonical_domain(one), canonical_domain(other)
    if a == b:
        return bool(a)
    upper, lower = sorted((a, b), key=len)
    if not upper or not lower.endswith("." + upper):
        return False
    return "." in upper and not _SHARED.match(upper)


def listed(address: str, senders: Iterable[str]) -> bool:
    """Whether the address is one of these: exactly, or by `*@domain` (that domain only, nothing under it)."""
    local, _, domain = address.strip().rpartition("@")
    domain = canonical_domain(domain)
    if not local or not domain:
        return False
    for entry in senders:
        wanted, at, where = entry.strip().rpartition("@")
        if at and canonical_domain(where) == domain and (wanted == "*" or lowered(wanted) == lowered(local)):
            return True
    return False


def canonical_domain(domain: str) -> str:
    """The domain as DNS sees it: lower case, no final dot, non-ASCII as punycode (IDNA 2008, so that ß stays itself).

    What has to be mapped to be a domain, such as a full-width letter, looks like one and is none: it stays as it is.
    """
    domain = lowered(domain.strip().rstrip("."))
    if domain.isascii():
        return domain
    import idna  # slow to load, and seldom wanted

    try:
        return idna.encode(domain, strict=True).decode("ascii")
    except UnicodeError:
        return domain
