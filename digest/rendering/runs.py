"""Text of which some is marked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text, marked if it is what the filter asked for."""

    text: str
    is_marked: bool = False


def plain(runs: Iterable[Run]) -> str:
    """Return marked text without its marks."""
    return "".join([run.text for run in runs])
