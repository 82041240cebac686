"""Recognise short acronyms, which match only as they are typed."""

from __future__ import annotations

import re

ACRONYM = re.compile(r"[A-Z]{2,5}s?")


def is_acronym(surface: str) -> bool:
    """Return whether `surface` is a short acronym (SAM, LLMs)."""
    return ACRONYM.fullmatch(surface) is not None
