"""Which attachments a sender put there for us, and which the mail program added by itself."""

from __future__ import annotations

from postroom.mail.letter import Attachment, Letter

_SIGNATURES = frozenset(
    [
        *("application/pgp-signature", "application/pkcs7-signature", "application/pgp-keys"),
        *("text/vcard", "application/x-pkcs7-signature", "application/pkcs7-mime"),
    ]
)


def of(letter: Letter) -> list[Attachment]:
    """What came with the letter on purpose: no logo inside the text, no signature, no visiting card."""
    return [one for one in letter.attachments if not one.inline and one.content_type not in _SIGNATURES]
