"""What a command found or did: one value, printed as JSON for scripts and as text or a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias

from digest.cli import terminal


class Printable(Protocol):
    """A part of the text for people."""

    def show(self) -> None:
        """Print it."""


Text: TypeAlias = (
    "str | Printable | Iterable[Text]"  #: a line of the result, or something else, or a sequence of these
)


@dataclass(frozen=True)
class CommandResult:
    """The value that `--json` prints, the text for people, and how the command ends."""

    value: Any
    text: Text = ()
    code: int = 0
    is_list: bool = False  #: whether `value` is printed as JSON Lines
    stop: str = ""  #: what was done and what was not, if Ctrl-C ended the work

    def show(self, *, as_json: bool) -> None:
        """Print the value or the text."""
        if not as_json:
            show_text(self.text)
        elif self.is_list:
            terminal.print_json_lines(self.value)
        else:
            terminal.print_json(self.value)


def show_text(text: Text) -> None:
    """Print a text for people, each part in turn."""
    if isinstance(text, str):
        terminal.print_line(text)
    elif isinstance(text, Iterable):
        for part in text:
            show_text(part)
    else:
        text.show()


@dataclass(frozen=True)
class Note:
    """A remark, which is not part of the result: it goes to stderr."""

    text: str

    def show(self) -> None:
        """Print the note."""
        terminal.print_note(self.text)


@dataclass(frozen=True)
class Paragraph:
    """A text that is wrapped and indented behind its first words."""

    first: str
    text: str

    def show(self) -> None:
        """Print the paragraph."""
        terminal.print_paragraph(self.first, self.text)


@dataclass(frozen=True)
class Facts:
    """Names, each with a value, one a line."""

    rows: Iterable[tuple[str, Any]]

    def show(self) -> None:
        """Print the facts."""
        terminal.print_facts(self.rows)


#: The columns of a table, as `name` or `heading=name`; a heading that ends in `#` is a number.
#: Or a value for each heading: the name of a field, or a function of the row.
Columns: TypeAlias = "str | Mapping[str, str | Callable[[Any], Any]]"


#: The rows of a list, or a function that reads at most as many rows as it is given.
Rows: TypeAlias = "Iterable[Any] | Callable[[int | None], Iterable[Any]]"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows, the columns that people see of them, and what is printed if there are none or too many."""

    rows: Rows
    columns: Columns
    shrinks: str = ""  #: the columns that are truncated in a narrow terminal
    empty: str = "None."
    limit: int | None = None  #: the maximum number of rows; None: all
    total: Callable[[], int] | None = None  #: counts all rows, if `rows` does not have them
    hint: str = ""  #: how to narrow the list

    def show(self) -> None:
        """Print the table."""
        rows = iter(first_rows(self.rows, self.limit and self.limit + 1))
        shown = list(islice(rows, self.limit))
        if not shown:
            terminal.print_note(self.empty)
            return
        columns = columns_of(self.columns)
        cells = ([value(row) for value in columns.values()] for row in shown)
        terminal.print_table(list(columns), cells, shrinks=self.shrinks.split())
        if next(rows, None) is not None:
            self.show_rest(len(shown))

    def show_rest(self, shown: int) -> None:
        """Print a note about the rows that are not shown."""
        total = self.total() if self.total else len(self.rows) if isinstance(self.rows, Sequence) else None
        if total is None:
            terminal.print_note(f"There are more. --limit N shows N, --json shows all.{self.hint}")
        else:
            terminal.print_note(f"{total - shown:,} more; --limit {total} shows them all.{self.hint}")


def first_rows(rows: Rows, limit: int | None) -> Iterator[Any]:
    """Yield at most `limit` rows."""
    yield from islice(rows(limit) if callable(rows) else rows, limit)


def columns_of(columns: Columns) -> dict[str, Callable[[Any], Any]]:
    """Return for each heading the function that takes its value from a row."""
    if isinstance(columns, str):
        given = (name.partition("=") for name in columns.split())
        columns = {heading.replace("_", " "): name or heading.removesuffix("#") for heading, _, name in given}
    return {heading: value if callable(value) else field(value) for heading, value in columns.items()}


def field(name: str) -> Callable[[Any], Any]:
    """Return the function that takes this field of a row, which is a mapping or an object."""
    return lambda row: row[name] if isinstance(row, Mapping) else getattr(row, name)


def lines(values: Iterable[Any], text: Text = (), code: int = 0) -> CommandResult:
    """Return a result that is a list: JSON Lines for scripts."""
    return CommandResult(values, text, code, is_list=True)


EVERY = 0  #: the limit of a list that is always shown whole


def listing(
    rows: Rows,
    columns: Columns,
    *,
    limit: int | None = EVERY,
    before: Text = (),
    after: Text = (),
    **more: Any,
) -> CommandResult:
    """Return a list: JSON Lines for scripts, a table for people, both with at most `limit` rows.

    If `limit` is None, scripts get all rows, and people the first.
    """
    table = Table(
        rows=rows, columns=columns, limit=terminal.LIMIT if limit is None else limit or None, **more
    )
    return lines(first_rows(rows, limit or None), (before, table, after))
