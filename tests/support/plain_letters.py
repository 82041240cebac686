"""Letters of any kind for tests of the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from digest.delivery.outbox.planned_letters import AnswerLetter


def plain_letter(kind: str, key: str, contents: Mapping[str, Any] | None = None) -> AnswerLetter:
    """Return a letter of this kind; a letter with the same key is the same letter."""
    return AnswerLetter(kind=kind, address_hash="", mail=key, contents=contents or {})
