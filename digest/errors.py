"""The errors an operator can meet, as one tree.

DigestError
├── UsageError                  somebody asked for what cannot be: exit code 2
│   ├── BadFilter               a filter that cannot be read; knows its column
│   │   └── BadPack             a file of filters that cannot be read; knows its line, too
│   └── BadField                a value that does not fit its field; knows the field
├── Unreadable                  a dump that cannot be read at all
├── NotFound                    what was named does not exist
├── Misfit                      this machine and the database do not belong together
└── Unreachable                 a database, broker or mail server that does not answer

A message is one sentence that says what is wrong, where, and what to do.
"""

from __future__ import annotations


class DigestError(Exception):
    """Something an operator can understand and mend."""


class UsageError(DigestError):
    """What was asked for cannot be done as asked."""


class BadFilter(UsageError):
    """A filter that cannot be read.

    `column` counts characters from 1; `suggestion` is a spelling that would work, or None.
    """

    def __init__(
        self, message: str, *, text: str, column: int, length: int = 1, suggestion: str | None = None
    ):
        super().__init__(message)
        self.message = message
        self.text = text
        self.column = column
        self.length = length
        self.suggestion = suggestion

    def __str__(self) -> str:
        hint = f" Did you mean {self.suggestion}?" if self.suggestion else ""
        return f"Column {self.column}: {self.message}{hint}"

    def pointed(self) -> str:
        """Return the filter with carets under the mistake and the message below, for a terminal."""
        carets = " " * (self.column - 1) + "^" * max(1, self.length)
        return f"{self.text}\n{carets}\n{self}"


class BadPack(BadFilter):
    """A file of named filters that cannot be read; `text` is the line, and `line` its number from 1."""

    def __init__(
        self,
        message: str,
        *,
        line: int,
        text: str,
        column: int,
        length: int = 1,
        suggestion: str | None = None,
    ):
        super().__init__(message, text=text, column=column, length=length, suggestion=suggestion)
        self.line = line

    def __str__(self) -> str:
        return f"Line {self.line}, c{super().__str__()[1:]}"


class BadField(UsageError):
    """A value that does not fit its field, named in the message."""

    def __init__(self, field: str, message: str):
        super().__init__(f"{field}: {message}")
        self.field = field


class Unreadable(DigestError):
    """A dump that cannot be read at all; the reason is the message."""


class NotFound(DigestError):
    """What was named does not exist."""


class Misfit(DigestError):
    """This machine's keys, schema or templates are not those the database was set up with."""


class Unreachable(DigestError):
    """A database, broker or mail server that does not answer."""
