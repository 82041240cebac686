"""Marked text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text, marked if it is what the filter asked for."""

    text: str
    is_marked: bool = False
