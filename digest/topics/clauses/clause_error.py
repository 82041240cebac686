"""Define the error of a clause."""

from __future__ import annotations


class ClauseError(Exception):
    """A value is wrong; `offset` counts from its beginning."""

    def __init__(self, message: str, *, offset: int = 0, length: int = 0, suggestion: str | None = None):
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.length = length
        self.suggestion = suggestion
