"""Define the options and parsers that many commands share."""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer

from digest.errors import BadField

Choice = TypeVar("Choice", bound=StrEnum)
Moment = TypeVar("Moment", date, datetime)
MAX_NUMBER = 2**63 - 1  #: the largest integer that a database column can store
EARLIEST, LATEST = 1900, 2999  #: years


def moment(text: str) -> datetime:
    """Parse a time in ISO 8601, or `now`; raise BadParameter if it is invalid, has no offset or is out of range."""
    if text == CLOCK:
        return current_time()
    parsed = parsed_as(datetime, text, "a time", "2026-11-20T08:00+01:00")
    if parsed.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no offset; write {text}+00:00 for UTC, or your own.")
    return parsed


def day(text: str) -> date:
    """Parse a day in ISO 8601."""
    return parsed_as(date, text, "a day", "2026-11-20")


def parsed_as(kind: type[Moment], text: str, name: str, example: str) -> Moment:
    """Parse a date or a time; raise BadParameter if it is invalid, or so early or late that arithmetic could overflow."""
    try:
        parsed = kind.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {name}; write one such as {example}.") from None
    if not EARLIEST <= parsed.year <= LATEST:
        raise typer.BadParameter(f"{text!r} is not between the years {EARLIEST} and {LATEST}.")
    return parsed


def positive_number(text: str) -> int:
    """Parse a whole number of at least 1."""
    return number_from(text, 1)


def whole_number(text: str) -> int:
    """Parse a whole number of at least 0."""
    return number_from(text, 0)


def number_from(text: str, lowest: int) -> int:
    """Parse a whole number from `lowest` to MAX_NUMBER; raise BadParameter for any other text."""
    try:
        number = int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None
    if number < lowest:
        raise typer.BadParameter(f"{text} is too small; the lowest number is {lowest}.")
    if number > MAX_NUMBER:
        raise typer.BadParameter(f"{text} is too large.")
    return number


def parse_choice(option: str, text: str | None, choices: type[Choice]) -> Choice | None:
    """Return the choice with this name, or None if no name was given; raise BadField for an unknown name."""
    if text is not None and text not in set(choices):
        raise BadField(option, f"{text!r} is not one of {', '.join(choices)}.")
    return choices(text) if text else None


def current_time(now: datetime | None = None) -> datetime:
    """Return `now` if it was given, otherwise the current time.

    Commands with `--now` read the clock only through this function.
    """
    return now or datetime.now(UTC)


def option(spelling: str, help_text: str, default: Any = None, **more: Any) -> Any:
    """Return an option spelled as in `--limit N`: its names, and the metavar unless it is a flag."""
    words = spelling.split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :]) or None
    if default is None and metavar is None:
        default = False
    return typer.Option(default, *names, metavar=metavar, help=help_text, show_default=False, **more)


def argument(metavar: str, help_text: str, default: Any = ..., **more: Any) -> Any:
    """Return an argument; the help does not show its default."""
    return typer.Argument(default, metavar=metavar, help=help_text, show_default=False, **more)


def number_option(spelling: str, help_text: str, default: Any = None) -> Any:
    """Return an option with a whole number of at least 1."""
    return option(spelling, help_text, default, parser=positive_number)


AsJson = Annotated[bool, option("--json", "Write JSON to stdout, and nothing else.", ...)]
DryRun = Annotated[bool, option("--dry-run", "Show what would change; change nothing.", ...)]
Yes = Annotated[bool, option("--yes -y", "Do not ask.", ...)]
Limit = Annotated[int | None, number_option("--limit N", "Show at most N.", ...)]

now_option = option("--now TIME", "Act as if it were this time: ISO 8601 with an offset.", ..., parser=moment)
GivenNow = Annotated[datetime | None, now_option]  #: None if it is not given
Now = Annotated[datetime, now_option]  #: with CLOCK as its default
CLOCK: Any = "now"  #: the default of `--now`, which the parser reads from the clock
