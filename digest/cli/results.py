"""What a command found or did: one value, printed as JSON for scripts and as text or a table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from digest.cli import terminal

#: The text for people: a line of the result, a function that prints something else, or a sequence of these.
Text: TypeAlias = "str | Callable[[], object] | Iterable[Text]"


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
            for value in self.value:
                print(terminal.json_text(value))
        else:
            print(terminal.json_text(self.value, indent=2))


def show_text(text: Text) -> None:
    """Print a text for people, each part in turn."""
    if isinstance(text, str):
        print(terminal.visible_text(text))
    elif callable(text):
        text()
    else:
        for part in text:
            show_text(part)


def note(text: str) -> Text:
    """Return a remark, which is not part of the result: it goes to stderr."""
    return partial(terminal.print_note, text)


def paragraph(first: str, text: str) -> Text:
    """Return a text that is wrapped and indented behind its first words."""
    return partial(terminal.print_paragraph, first, text)


def facts(rows: Iterable[tuple[str, Any]]) -> Text:
    """Return names, each with a value, one a line."""
    return partial(terminal.print_facts, rows)


#: The columns of a table, as `name` or `heading=name`; a heading that ends in `#` is a number.
#: Or a value for each heading: the name of a field, or a function of the row.
Columns: TypeAlias = "str | Mapping[str, str | Callable[[Any], Any]]"

#: The rows of a list, or a function that reads at most as many rows as it is given.
Rows: TypeAlias = "Iterable[Any] | Callable[[int | None], Iterable[Any]]"


def table(
    rows: Rows,
    columns: Columns,
    *,
    shrinks: str = "",
    empty: str = "None.",
    limit: int | None = None,
    total: Callable[[], int] | None = None,
    hint: str = "",
) -> Text:
    """Return a table of at most `limit` rows.

    `shrinks` names the columns that are truncated in a narrow terminal, `total` counts all rows if `rows` is no
    sequence, and `hint` says how to narrow the list.
    """

    def show() -> None:
        found = first_rows(rows, limit and limit + 1)
        shown = list(islice(found, limit))
        if not shown:
            terminal.print_note(empty)
            return
        values = columns_of(columns)
        cells = ([value(row) for value in values.values()] for row in shown)
        terminal.print_table(list(values), cells, shrinks=shrinks.split())
        if next(found, None) is not None:
            number = total() if total else len(rows) if isinstance(rows, Sequence) else 0
            terminal.print_note(f"{number - len(shown):,} more; --limit {number} shows them all.{hint}")

    return show


def first_rows(rows: Rows, limit: int | None) -> Iterator[Any]:
    """Return at most `limit` rows."""
    return islice(rows(limit) if callable(rows) else rows, limit)


def columns_of(columns: Columns) -> dict[str, Callable[[Any], Any]]:
    """Return for each heading the function that takes its value from a row."""
    if isinstance(columns, str):
        given = (name.partition("=") for name in columns.split())
        columns = {heading.replace("_", " "): name or heading.removesuffix("#") for heading, _, name in given}
    return {heading: value if callable(value) else field(value) for heading, value in columns.items()}


def field(name: str) -> Callable[[Any], Any]:
    """Return the function that takes this field of a row, which is a mapping or an object."""
    return lambda row: row[name] if isinstance(row, Mapping) else getattr(row, name)


def fields_of(row: object, names: str) -> dict[str, Any]:
    """Return these fields of an object, for JSON."""
    return {name: getattr(row, name) for name in names.split()}


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
    shown = table(rows, columns, limit=terminal.LIMIT if limit is None else limit or None, **more)
    return lines(first_rows(rows, limit or None), (before, shown, after))
