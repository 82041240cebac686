"""Print the output of the commands: tables and progress for people, JSON for scripts.

Results go to stdout, notes and progress to stderr. Colour and progress bars appear only in a
terminal. Control characters are removed from untrusted text, so that a title cannot send commands
to the terminal.
"""

from __future__ import annotations

import json
import os
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

import typer

from digest.errors import DigestError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

DRY_RUN = "Dry run: "  #: the beginning of the sentence that a dry run prints
QUIET = "DIGEST_CLI_QUIET"  #: the environment variable that `digest --quiet` sets
MIN_COLUMN_WIDTH = 10  #: the minimum width of a column that shrinks, in characters
UNLIMITED = 100_000  #: the width of output to a pipe
LIMIT = 20  #: number of rows of a table unless --limit is given
NO_OFFSET = timedelta(0)
INVISIBLE_CATEGORIES = frozenset(
    {"Cc", "Cf", "Cs", "Co", "Cn"}
)  #: control characters, direction marks, unassigned code points
JOINERS = "\u200c\u200d"  #: format characters that are allowed, because Persian and emoji need them


# ── for scripts ─────────────────────────────────────────────────────────────────────────────────


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=json_value)


def json_value(value: Any) -> Any:
    """Return a value as a JSON type: a date or time in ISO 8601, an enum's value, a dict or a list.

    Raises TypeError for other types.
    """
    match value:
        case date() | time():
            return value.isoformat()
        case Enum():
            return value.value
        case Mapping():
            return dict(value)
        case Iterable():
            return list(value)
    raise TypeError(f"{value!r} cannot be written as JSON")


def read_input(size: int) -> bytes:
    """Return up to `size` bytes of standard input."""
    if sys.stdin is None:
        return b""
    if sys.stdin.isatty():
        print_note("Paste the page, then press Ctrl-D.")
    found = getattr(sys.stdin, "buffer", sys.stdin).read(size)
    return found.encode() if isinstance(found, str) else found


# ── for people ──────────────────────────────────────────────────────────────────────────────────


def require_yes(plan: str, *, yes: bool) -> None:
    """Print the plan and ask for confirmation, unless `--yes` was given.

    Raises UsageError if there is no terminal, and DigestError if the operator declines.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{plan} To do this without being asked, add --yes.")
    print(wrap_lines(visible_text(plan), sys.stderr), file=sys.stderr)
    if not typer.confirm("Continue?", err=True):
        raise DigestError("Nothing was changed.")


def print_note(text: str = "") -> None:
    """Print a note to stderr, after flushing stdout; with `digest --quiet`, print nothing."""
    if QUIET in os.environ:
        return
    sys.stdout.flush()
    print(wrap_lines(text, sys.stderr), file=sys.stderr)


def wrap_lines(text: str, stream: IO[str]) -> str:
    """Return the text with long lines wrapped between words and indented, if the stream is a terminal."""
    if not stream.isatty():
        return text
    return "\n".join(wrap_line(line, shutil.get_terminal_size().columns) for line in text.split("\n"))


def wrap_line(line: str, width: int) -> str:
    """Return a line wrapped between words; if the line is indented, its continuation has two more spaces."""
    indent = line[: len(line) - len(line.lstrip())]
    further = f"{indent}  " if indent else ""
    return textwrap.fill(
        line, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], *, shrinks: Sequence[str] = ()
) -> None:
    """Print a table.

    Columns whose heading ends in `#` are numbers and aligned right. If the terminal is too narrow, the columns
    in `shrinks` are truncated, the widest first; output to a pipe is never truncated.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        name = heading.removesuffix("#")
        is_number, can_shrink = name != heading, name in shrinks
        table.add_column(
            name, justify="right" if is_number else "left", no_wrap=not can_shrink,
            min_width=min(MIN_COLUMN_WIDTH, len(name)) if can_shrink else None,
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(format_cell(value), no_wrap=True, overflow="ellipsis") for value in row))
    screen = console(sys.stdout)
    if not sys.stdout.isatty():
        screen.width = UNLIMITED
    with screen.capture() as captured:
        screen.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def display_width(text: str) -> int:
    """Return the width of the text in a terminal, where a Chinese character takes two columns."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def print_paragraph(first: str, text: str) -> None:
    """Print `first` and the text after it, wrapped and indented in a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    shown = textwrap.wrap(
        visible_text(text),
        max(width, display_width(first) + MIN_COLUMN_WIDTH),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,  # a path stays whole
    )
    print("\n".join(shown or [first.rstrip()]))


def print_facts(rows: Iterable[tuple[str, Any]]) -> None:
    """Print one name and value per line, with the values aligned."""
    known = [(name, format_cell(value)) for name, value in rows]
    width = max(len(name) for name, _ in known)
    for name, value in known:
        print_paragraph(f"{name.ljust(width)}  ", value)


def format_cell(value: Any) -> str:  # noqa: PLR0911  (one return for each type)
    """Return a value as text for people: times without seconds, and a dash for None."""
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
            return visible_text(value)
        case list() | tuple() | set() | frozenset():
            return ", ".join(format_cell(one) for one in value) or "–"
    return visible_text(str(value))


def visible_text(text: str) -> str:
    """Return `text` on one line, without control characters, which could have an effect on the terminal."""
    return "".join(
        " " if char.isspace() else char
        for char in text
        if char.isspace() or char in JOINERS or unicodedata.category(char) not in INVISIBLE_CATEGORIES
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The progress bar of a long task; without a terminal, nothing is shown."""

    update: Callable[..., object] = lambda **_: None

    def update_to(self, done: int, total: int | None = None) -> None:
        """Set the amount done, and the total if it is known."""
        self.update(completed=done, total=total)

    def advance(self, more: int) -> None:
        """Add `more` to the amount done."""
        self.update(advance=more)


@contextmanager
def show_progress(task_name: str, *, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """Show a progress bar if stderr is a terminal; with a `unit`, also show the speed."""
    if not sys.stderr.isatty() or QUIET in os.environ:
        yield Progress()
        return
    from rich import progress as rich
    from rich.text import Text

    class ThroughputColumn(rich.ProgressColumn):
        """A column that shows the units per second."""

        def render(self, task: rich.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} {unit}/s" if speed else "")

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        *([ThroughputColumn()] if unit else []),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=console(sys.stderr), transient=True) as bars:
        task = bars.add_task(visible_text(task_name), total=total)
        yield Progress(update=partial(bars.update, task))


def console(stream: IO[str]) -> Console:
    """Return rich's console for a stream; it detects the terminal's width and colour support."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)
