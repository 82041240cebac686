"""Recognise AI summaries in place of abstracts on pages of trending papers."""

from __future__ import annotations

MAX_SUMMARY_LENGTH = 400  #: a shorter abstract on such a page is an AI summary; in characters


def is_summary(abstract: str) -> bool:
    """Return whether an abstract on a page of trending papers is so short that it is an AI summary."""
    return 0 < len(abstract) < MAX_SUMMARY_LENGTH
