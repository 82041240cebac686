"""What the commands show: tables and progress for people, JSON for scripts.

Results go to stdout, everything said along the way to stderr. Colour, frames and progress bars
appear only where a terminal is looking. Text from outside is stripped of control characters, so
that no title can repaint a terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from functools import partial
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

LIMIT = 20  #: rows a person is shown unless they ask for more
NO_OFFSET = timedelta(0)
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  #: controls, marks of direction, what is no character
JOINERS = "\u200c\u200d"  #: of this kind, but Persian and emoji are not themselves without them


# ── for scripts ─────────────────────────────────────────────────────────────────────────────────


def document(value: Any) -> None:
    """Write one JSON document."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=plain))


def lines(values: Iterable[Any]) -> None:
    """Write JSON Lines: one value a line."""
    for value in values:
        print(json.dumps(value, ensure_ascii=False, default=plain))


def plain(value: Any) -> Any:
    """Return what JSON has for a value it does not know: moments in ISO 8601."""
    match value:
        case date() | time():
            return value.isoformat()
        case Enum():
            return value.value
        case Mapping():
            return dict(value)
        case Iterable():
            return list(value)
    raise TypeError(f"{value!r} has no place in JSON")


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def say(text: str = "") -> None:
    """Tell the person something beside the result, on stderr."""
    print(text, file=sys.stderr)


def tell(text: str = "") -> None:
    """Write one line of the result."""
    print(visible(text))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, stretch: str = "", empty: str = "None."
) -> None:
    """Write a table. In a terminal the `stretch` column gives way where the line is too short.

    Columns whose name ends in `#` hold figures and are set flush right. `empty` is said instead of
    a table without rows.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        say(empty)
    elif sys.stdout.isatty():
        framed(columns, cells, stretch)
    else:
        aligned(columns, cells)


def framed(columns: Sequence[str], cells: Sequence[Sequence[str]], stretch: str) -> None:
    """Write a table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        shown.add_column(
            name.removesuffix("#"),
            justify="right" if name.endswith("#") else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if name == stretch else None,
        )
    for row in cells:
        shown.add_row(*(Text(text) for text in row))
    console(sys.stdout).print(shown)


def aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Write a table for a pipe: plain columns, nothing cut off."""
    names = [name.removesuffix("#") for name in columns]
    widths = [max(len(row[place]) for row in [names, *cells]) for place in range(len(names))]
    for row in [names, *cells]:
        padded = (
            text.rjust(width) if name.endswith("#") else text.ljust(width)
            for text, width, name in zip(row, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip())


def facts(rows: Iterable[tuple[str, Any]]) -> None:
    """Write name and value, one a line, the values in one column."""
    known = [(name, cell(value)) for name, value in rows]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        print(f"{name.ljust(width)}  {value}".rstrip())


def cell(value: Any) -> str:
    """Return how a value is written for people: no seconds, no `None`."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}" + ("Z" if value.utcoffset() == NO_OFFSET else f"{value:%z}")
        case time():
            return f"{value:%H:%M}"
        case float():
            return f"{value:.2f}"
        case int():
            return f"{value:,}"
        case str():
            return visible(value)
        case list() | tuple() | set() | frozenset():
            return ", ".join(cell(one) for one in value) or "–"
    return visible(str(value))


def visible(text: str) -> str:
    """Return `text` on one line, without characters that a terminal would obey."""
    return "".join(" " if char.isspace() else char for char in text if char.isspace() or is_visible(char))


def is_visible(char: str) -> bool:
    """Return whether a terminal shows a character rather than obeys it."""
    return char in JOINERS or unicodedata.category(char) not in UNSEEN


def count(number: int, one: str, many: str = "") -> str:
    """Return `1 paper`, `2 papers`, `1,203 papers`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What a long work tells how far it is; where nobody looks, nothing comes of it."""

    update: Callable[..., object] = lambda **_: None

    def to(self, done: int) -> None:
        """So much is done."""
        self.update(completed=done)

    def by(self, more: int) -> None:
        """So much more is done."""
        self.update(advance=more)


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator[Progress]:
    """Show how far a long work is, on stderr, if a terminal is there."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        task = bars.add_task(visible(what), total=total)
        yield Progress(update=partial(bars.update, task))


def console(stream: IO[str]) -> Console:
    """Return rich's console on a stream: it knows the width and whether colours are wanted."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)
