"""Mail: opening letters, who may speak, putting answers together."""

from postroom.mail.letter import Attachment, Letter
from postroom.mail.opening import parse

__all__ = ["Attachment", "Letter", "parse"]
