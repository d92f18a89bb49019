"""Who may speak."""

import pytest

from postroom.mail import parse
from postroom.mail.trust import Decision, listed, may_speak, same_owner
from tests.postroom.mail.letters import SENDER, multipart, raw, received

SENDERS = [SENDER]
HOST = "Authentication-Results: amazonses.com;"


def decide(mail: bytes, senders: list[str] | None = None) -> Decision:
    return may_speak(parse(mail), senders or SENDERS)


def on_top(*lines: str, mail: bytes | None = None) -> bytes:
    """A mail whose receiving host wrote exactly these lines."""
    top = ["Return-Path: <owner@example.com>", "Received: from a by b for garden+owner@post.example.com", *lines]
    return "\r\n".join(top).encode() + b"\r\n" + (mail or raw())


SCANNED = ("X-SES-Spam-Verdict: PASS", "X-SES-Virus-Verdict: PASS")


def test_a_listed_sender_whose_mail_is_genuine_may_speak() -> None:
    decision = decide(received())
    assert (decision.allowed, decision.code) == (True, "ok")


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ({"dmarc": "fail"}, "dmarc"),
        ({"dmarc": "temperror"}, "dmarc"),
        ({"spam": "fail"}, "spam"),
        ({"spam": "gray"}, "spam"),
        ({"virus": "fail"}, "virus"),
        ({"virus": "processing_failed"}, "virus"),
        ({"dmarc": "none", "dkim": "fail", "spf": "fail"}, "unaligned"),
    ],
)
def test_a_failed_verdict_refuses_and_nobody_is_answered(verdict: dict[str, str], code: str) -> None:
    decision = decide(received(**verdict))
    assert (decision.allowed, decision.code, decision.may_answer) == (False, code, False)


def test_a_genuine_sender_who_is_not_listed_may_get_one_answer() -> None:
    decision = decide(received(), ["somebody@example.com"])
    assert (decision.allowed, decision.code, decision.may_answer) == (False, "not-listed", True)


def test_a_forged_result_below_the_receiving_hosts_does_not_count() -> None:
    forged = raw(f"{HOST} dmarc=pass header.from=example.com", "X-SES-Spam-Verdict: PASS")
    assert decide(received(forged, dmarc="fail")).code == "dmarc"
    assert decide(received(forged, spam="fail")).code == "spam"


def test_a_mail_that_only_the_sender_vouches_for_is_refused() -> None:
    forged = raw(*SCANNED, f"{HOST} spf=pass smtp.mailfrom=example.com; dmarc=pass header.from=example.com")
    below = b"Received: from a by b for x\r\nReceived: from c by d\r\n" + forged
    assert decide(below).code == "virus-unknown"
    assert decide(raw()).code == "virus-unknown"
    scanned = "\r\n".join(["Received: from a by b", *SCANNED, "Received: from c by d", ""]).encode()
    assert decide(scanned + forged).code == "unauthenticated"


def test_where_the_receiving_host_wrote_no_verdict_the_senders_own_are_not_read() -> None:
    own = ("X-SES-Spam-Verdict: PASS", "X-SES-Virus-Verdict: PASS", f"{HOST} dmarc=pass header.from=example.com")
    assert decide(on_top(mail=raw(*own))).code == "virus-unknown"
    assert decide(on_top(*SCANNED, mail=raw(*own))).code == "unauthenticated"
    other = "Authentication-Results: mx.example.net; dmarc=fail header.from=example.com"
    assert decide(on_top(*SCANNED, other, own[2])).code == "unauthenticated"  # the first counts, whoever wrote it


@pytest.mark.parametrize(
    ("helo", "path", "allowed"),
    [
        ("mail.example.com", "prvs=1234=owner@example.com", True),
        ("[192.0.2.1]", "owner@example.com", True),
        ("x; dkim=pass header.i=@example.com", "a@evil.example", False),
        ("x (y); dkim=pass header.i=@example.com", "a@evil.example", False),
        ("x by y; dkim=pass header.i=@example.com", "a@evil.example", False),
        ("dkim=pass", "a@evil.example", False),
        ("x", '"a; dkim=pass header.i=@example.com; b"@evil.example', False),
    ],
)
def test_a_name_the_sender_gave_is_no_result_where_the_host_repeats_it(helo: str, path: str, allowed: bool) -> None:
    top = (
        f"Return-Path: <{path}>",
        f"Received: from {helo} (mail.evil.example [192.0.2.1]) by inbound-smtp.eu-west-1.amazonaws.com with SMTP id a"
        " for garden+owner@post.example.com; Mon, 02 Mar 2026 10:00:00 +0000 (UTC)",
        *SCANNED,
        f"{HOST} spf=none envelope-from={path}; helo={helo}; dkim=pass header.i=@example.com; dmarc=none",
    )
    assert decide("\r\n".join(top).encode() + b"\r\n" + raw()).allowed is allowed


def test_a_method_that_says_none_and_pass_is_not_believed() -> None:
    said = "dkim=none; helo=x; dkim=pass header.i=@example.com; dmarc=none header.from=example.com"
    assert decide(on_top(*SCANNED, f"{HOST} {said}")).code == "unauthenticated"


def test_results_under_another_hosts_name_do_not_count() -> None:
    mail = on_top(*SCANNED, "Authentication-Results: mx.example.net; dmarc=pass header.from=example.com")
    assert decide(mail).code == "unauthenticated"
    spoofed = "Authentication-Results: amazonses.com.evil.example; dmarc=pass header.from=example.com"
    assert decide(on_top(*SCANNED, spoofed)).code == "unauthenticated"


def test_of_duplicate_verdict_headers_only_the_topmost_counts() -> None:
    good, bad = f"{HOST} dmarc=pass header.from=example.com", f"{HOST} dmarc=fail header.from=example.com"
    assert decide(on_top(*SCANNED, bad, good)).code == "dmarc"
    assert decide(on_top(*SCANNED, good, bad)).allowed
    assert decide(on_top("X-SES-Virus-Verdict: FAIL", *SCANNED, good)).code == "virus"


def test_two_dmarc_results_in_one_header_are_refused() -> None:
    assert decide(on_top(*SCANNED, f"{HOST} dmarc=pass header.from=a.example; dmarc=pass")).code == "unauthenticated"


def test_a_result_inside_a_comment_does_not_count() -> None:
    mail = on_top(
        *SCANNED, f"{HOST} spf=fail (dmarc=pass; dmarc=pass) smtp.mailfrom=x; dmarc=fail (p=none; dmarc=pass)"
    )
    assert decide(mail).code == "dmarc"


def test_a_dmarc_pass_for_another_domain_is_refused() -> None:
    assert decide(on_top(*SCANNED, f"{HOST} dmarc=pass header.from=attacker.example")).code == "unauthenticated"


@pytest.mark.parametrize(
    ("results", "allowed"),
    [
        ("dkim=pass header.i=@example.com; dmarc=none", True),
        ("dkim=pass header.d=mail.example.com; dmarc=none", True),
        ("spf=pass smtp.mailfrom=bounce@example.com; dmarc=none", True),
        ("spf=pass client-ip=192.0.2.1; envelope-from=a@example.com; helo=x; dmarc=none", True),
        ("dkim=fail header.i=@example.com; dkim=pass header.i=@example.com; dmarc=none", True),
        ("dkim=pass header.i=@attacker.example; spf=pass smtp.mailfrom=x@attacker.example; dmarc=none", False),
        ("dkim=pass header.i=@notexample.com; dmarc=none", False),
        ("dkim=pass; spf=pass; dmarc=none", False),
        ("dkim=fail header.i=@example.com; spf=softfail smtp.mailfrom=example.com; dmarc=none", False),
    ],
)
def test_without_a_policy_an_aligned_dkim_or_spf_pass_is_needed(results: str, allowed: bool) -> None:
    assert decide(on_top(*SCANNED, f"{HOST} {results}")).allowed is allowed


@pytest.mark.parametrize(
    "header",
    [
        ("From: owner@example.com", "From: attacker@attacker.example"),
        ("From: owner@example.com, attacker@attacker.example",),
        ('From: "owner@example.com" <not-an-address>',),
        ("From: =?utf-8?Q?owner=40example.com?=",),
        ("From:",),
    ],
)
def test_an_unclear_sender_is_refused(header: tuple[str, ...]) -> None:
    decision = decide(received(raw(*header)))
    assert (decision.allowed, decision.code, decision.may_answer) == (False, "sender-unclear", False)


def test_a_display_name_is_not_a_sender() -> None:
    mail = received(raw('From: "owner@example.com" <someone@attacker.example>'))
    assert parse(mail).from_ == "someone@attacker.example"
    assert decide(mail).code == "not-listed"


def test_automatic_mail_is_refused_before_anything_else() -> None:
    decision = decide(received(raw("Auto-Submitted: auto-replied")))
    assert (decision.allowed, decision.code, decision.may_answer) == (False, "automatic", False)


def test_a_header_inside_the_body_decides_nothing() -> None:
    part = f"Content-Type: text/plain\r\n{HOST} dmarc=pass\r\nFrom: owner@example.com\r\n\r\nhi"
    assert decide(received(multipart("mixed", part), dmarc="fail")).code == "dmarc"


@pytest.mark.parametrize(
    ("address", "senders", "expected"),
    [
        ("owner@example.com", ["owner@example.com"], True),
        ("Owner@EXAMPLE.com", ["owner@example.com"], True),
        ("owner@example.com", ["*@example.com"], True),
        ("owner@sub.example.com", ["*@example.com"], False),
        ("owner@notexample.com", ["*@example.com"], False),
        ("owner@example.com.attacker.example", ["*@example.com"], False),
        ("xowner@example.com", ["owner@example.com"], False),
        ("owner@example.com", ["*"], False),
        ("owner@example.com", [], False),
        ("a@bücher.example", ["*@xn--bcher-kva.example"], True),
        ("a*b@example.com", ["a*@example.com"], False),
        ("a@straße.example", ["*@strasse.example"], False),
        ("a@straße.example", ["*@xn--strae-oqa.example"], True),
        ("straße@example.com", ["strasse@example.com"], False),
        ("a@\uff45xample.com", ["*@example.com"], False),
        ("a@example\u3002com", ["*@example.com"], False),
        ("a@\u212aiwi.example", ["*@kiwi.example"], False),
    ],
)
def test_a_sender_is_listed_exactly_or_by_domain(address: str, senders: list[str], expected: bool) -> None:
    assert listed(address, senders) is expected


def test_a_domain_that_only_looks_like_the_listed_one_is_not_read_as_it() -> None:
    letter = parse(raw("From: owner@\u212aiwi.example"))
    assert letter.from_ is None or not listed(letter.from_, ["*@kiwi.example"])


def test_domains_have_the_same_owner_only_below_a_registrable_one() -> None:
    assert same_owner("mail.example.com", "example.com")
    assert not same_owner("co.uk", "shop.co.uk")
    assert not same_owner("com", "example.com")
    assert not same_owner("ample.com", "example.com")


@pytest.mark.parametrize(
    "said",
    [
        r'spf=pass envelope-from="x\"; dkim=pass header.i=@example.com; y=\""@evil.example',
        r'spf=pass envelope-from="x@example.com"@evil.example',
        r'spf=pass (domain of "a) ; dkim=pass header.i=@example.com; (b"@evil.example) envelope-from=a@evil.example',
        r'spf=pass envelope-from="x; dkim=pass header.i=@example.com',
        r"dkim=pass header.i=@example.com; spf=pass (domain of",
    ],
)
def test_words_of_the_sender_that_the_host_repeats_are_not_the_hosts(said: str) -> None:
    assert not decide(on_top(*SCANNED, f"{HOST} dmarc=none header.from=example.com; {said}")).allowed


def test_a_quoted_address_of_the_senders_own_domain_is_believed() -> None:
    said = r'spf=pass (ok; "quoted") envelope-from="x\";y"@example.com; dmarc=none header.from="example.com"'
    assert decide(on_top(*SCANNED, f"{HOST} {said}")).allowed
