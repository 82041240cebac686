"""Represent text in which the words that matched are marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TextRun(NamedTuple):
    """A stretch of text, marked if a filter matched it."""

    text: str
    is_marked: bool = False


def plain_text(runs: Iterable[TextRun]) -> str:
    """Return the text without marks."""
    return "".join([run.text for run in runs])
