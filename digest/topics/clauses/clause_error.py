"""Define the error for an invalid clause."""

from __future__ import annotations


class ClauseError(Exception):
    """The value of a clause is invalid; `offset` is the position of the mistake in the value."""

    def __init__(self, message: str, *, offset: int = 0, length: int = 0, suggestion: str | None = None):
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.length = length
        self.suggestion = suggestion
