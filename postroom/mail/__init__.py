"""Mail: opening letters, who may speak, putting answers together."""

from postroom.mail.letter import Attachment, Letter
from postroom.mail.opening import outside, parse

__all__ = ["Attachment", "Letter", "outside", "parse"]
