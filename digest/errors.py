"""Define the errors that an operator can see, as one tree.

DigestError
├── UsageError                  a request that cannot be carried out: exit code 2
│   ├── BadFilter               an invalid filter, with the column of the mistake
│   │   └── BadPack             an invalid file of filters, with the line too
│   └── BadField                an invalid value, with its field
├── UnreadableDump              a dump that cannot be read
├── NotFound                    a requested name that does not exist
├── SetupMismatch               this machine's setup does not match the database, or cannot be used
└── Unreachable                 a database, broker or mail server that cannot be reached

Each message gives the fault, its location and the remedy.
"""

from __future__ import annotations


class DigestError(Exception):
    """An error that an operator can understand and fix."""


class UsageError(DigestError):
    """The request is invalid and cannot be carried out."""


class BadFilter(UsageError):
    """An invalid filter.

    `column` counts characters from 1; `suggestion` is a valid spelling, or None.
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

    def with_carets(self) -> str:
        """Return the filter with carets under the mistake and the message below, for a terminal."""
        carets = " " * (self.column - 1) + "^" * max(1, self.length)
        return f"{self.text}\n{carets}\n{self}"


class BadPack(BadFilter):
    """An invalid file of named filters; `text` is the line with the mistake, `line` its number from 1."""

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
    """An invalid value of the field named in the message."""

    def __init__(self, field: str, message: str):
        super().__init__(f"{field}: {message}")
        self.field = field


class UnreadableDump(DigestError):
    """The dump cannot be read; the message gives the reason."""


class NotFound(DigestError):
    """The requested name does not exist."""


class SetupMismatch(DigestError):
    """This machine's keys, schema, templates or addresses do not match the database, or cannot be used."""


class Unreachable(DigestError):
    """The database, broker or mail server cannot be reached."""
