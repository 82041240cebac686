"""Represent text with the matched words marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class TextRun(NamedTuple):
    """A run of text, marked if a filter matched it."""

    text: str
    is_marked: bool = False


def plain_text(runs: Iterable[TextRun]) -> str:
    """Return the text without marks."""
    return "".join([run.text for run in runs])
