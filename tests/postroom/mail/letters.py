"""Mails made for tests: written line by line, so that a test can break each of them where it likes."""

from __future__ import annotations

from postroom.mail.posting import VERDICTS, incoming

SENDER = "owner@example.com"
SITE = "garden+owner@post.example.com"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fccfc0f01f00050001ff"
    "a1a35c0d0000000049454e44ae426082"
)


def raw(*header: str, body: str | bytes = "Please change the opening hours.\n", skip: tuple[str, ...] = ()) -> bytes:
    """A raw mail: the usual header lines, replaced by those given under the same name."""
    usual = {
        "from": f"From: Owner <{SENDER}>",
        "to": f"To: {SITE}",
        "subject": "Subject: Opening hours",
        "date": "Date: Mon, 02 Mar 2026 10:00:00 +0100",
        "message-id": "Message-ID: <first@example.com>",
    }
    given = {line.partition(":")[0].strip().lower() for line in header}
    lines = [line for name, line in usual.items() if name not in given and name not in skip] + list(header)
    content = body if isinstance(body, bytes) else body.encode()
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + content


def multipart(kind: str, *parts: str | bytes, header: tuple[str, ...] = (), boundary: str = "cut-here") -> bytes:
    """A multipart mail of parts that bring their own headers."""
    pieces = [part if isinstance(part, bytes) else part.encode() for part in parts]
    mark = b"--" + boundary.encode()
    body = b"".join(mark + b"\r\n" + piece + b"\r\n" for piece in pieces) + mark + b"--\r\n"
    return raw("MIME-Version: 1.0", f'Content-Type: multipart/{kind}; boundary="{boundary}"', *header, body=body)


def received(mail: bytes | None = None, **verdicts: str) -> bytes:
    """The mail with what the receiving host writes on top."""
    return incoming(mail or raw(), message_id="stored-1", recipient=SITE, verdicts={**VERDICTS, **verdicts})
