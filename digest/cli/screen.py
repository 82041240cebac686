"""What the commands show: tables and progress for people, JSON for scripts.

Results go to stdout, everything said along the way to stderr. Colour, frames and progress bars
appear only where a terminal is looking. Text from outside is stripped of control characters, so
that no title can repaint a terminal.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
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

LEAST = 10  #: columns that a column keeps, however narrow the terminal
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
    """Tell the person something beside the result, on stderr, after what was written before it."""
    sys.stdout.flush()
    print(text, file=sys.stderr)


def tell(text: str = "") -> None:
    """Write one line of the result."""
    print(visible(text))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, give: Sequence[str] = (), empty: str = "None."
) -> None:
    """Write a table; `empty` is said instead of one without rows.

    Columns whose name ends in `#` hold figures and are set flush right. In a terminal too narrow for
    all of it the columns in `give` give way, the widest first; a pipe gets everything.
    """
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        say(empty)
        return
    names = [name.removesuffix("#") for name in columns]
    widths = [max(length(row[place]) for row in [names, *cells]) for place in range(len(names))]
    is_seen = sys.stdout.isatty()
    if is_seen:
        narrow(widths, [names.index(name) for name in give], terminal_width())
    for number, row in enumerate([names, *cells]):
        line = "  ".join(
            fitted(text, width, flush_right=name.endswith("#"))
            for text, width, name in zip(row, widths, columns, strict=True)
        ).rstrip()
        print(bold(line) if is_seen and number == 0 else line)


def narrow(widths: list[int], giving: Sequence[int], limit: int) -> None:
    """Take from the widest of the columns that give way until the line fits, leaving each something to be known by."""
    too_long = sum(widths) + 2 * (len(widths) - 1) - limit
    for _ in range(too_long):
        widest = max(giving, key=lambda place: widths[place], default=None)
        if widest is None or widths[widest] <= LEAST:
            return
        widths[widest] -= 1


def fitted(text: str, width: int, *, flush_right: bool) -> str:
    """Return the text in exactly so many columns, cut where it is longer."""
    from rich.cells import set_cell_size

    if length(text) > width:
        return set_cell_size(text, width - 1) + "…"
    padding = " " * (width - length(text))
    return padding + text if flush_right else text + padding


def length(text: str) -> int:
    """Return how many columns of a terminal a text takes: a Chinese character takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def bold(text: str) -> str:
    """Return the text as the head of a table, if this terminal wants it so (NO_COLOR, TERM)."""
    from rich.text import Text

    screen = console(sys.stdout)
    with screen.capture() as captured:
        screen.print(Text(text, style="bold"), end="", soft_wrap=True)
    return captured.get()


def terminal_width() -> int:
    """Return how many columns the terminal has."""
    return shutil.get_terminal_size().columns


def paragraph(first: str, text: str, *, stream: IO[str] | None = None) -> None:
    """Write text behind `first`, in a terminal wrapped so that it stays in its column."""
    stream = stream or sys.stdout
    width = terminal_width() if stream.isatty() else 10_000
    shown = textwrap.wrap(
        visible(text),
        max(width, length(first) + LEAST),
        initial_indent=first,
        subsequent_indent=" " * len(first),
    )
    print("\n".join(shown or [first.rstrip()]), file=stream)


def facts(rows: Iterable[tuple[str, Any]]) -> None:
    """Write name and value, one a line, the values in one column."""
    known = [(name, cell(value)) for name, value in rows]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        paragraph(f"{name.ljust(width)}  ", value)


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

    def to(self, done: int, total: int | None = None) -> None:
        """So much is done, of so much if that is known by now."""
        self.update(completed=done, total=total)

    def by(self, more: int) -> None:
        """So much more is done."""
        self.update(advance=more)


@contextmanager
def progress(what: str, *, total: int | None = None, of: str = "") -> Iterator[Progress]:
    """Show how far a long work is, and with the name of what is counted how fast; on stderr, if a terminal is there."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich import progress as rich
    from rich.text import Text

    class Pace(rich.ProgressColumn):
        """How much is done in a second."""

        def render(self, task: rich.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {of}/s" if speed else "")

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        *([Pace()] if of else []),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        task = bars.add_task(visible(what), total=total)
        yield Progress(update=partial(bars.update, task))


def console(stream: IO[str]) -> Console:
    """Return rich's console on a stream: it knows the width and whether colours are wanted."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)
