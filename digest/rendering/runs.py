"""Text of which some is marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Run(NamedTuple):
    """A stretch of text, marked if it is what the filter asked for."""

    text: str
    is_marked: bool = False


def plain(runs: Iterable[Run]) -> str:
    """Return marked text without its marks."""
    return "".join([run.text for run in runs])
