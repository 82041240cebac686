"""The options that many commands share, spelled and explained once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer


def moment(text: str) -> datetime:
    """Return the moment that `text` names in ISO 8601; one without an offset is refused."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a moment; write one such as 2026-11-20T08:00+01:00."
        ) from None
    if parsed.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no offset; write {text}+00:00 for UTC, or your own.")
    return parsed


def day(text: str) -> date:
    """Return the day that `text` names in ISO 8601."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day; write one such as 2026-11-20.") from None


def clock(now: datetime | None) -> datetime:
    """Return `now` if it was given, else what the clock shows: the one place the CLI reads it."""
    return now or datetime.now(UTC)


HIGHEST = 2**63 - 1  #: the largest number that a database has

AsJson = Annotated[
    bool, typer.Option("--json", help="Write JSON for scripts to stdout, and nothing else there.")
]
Now = Annotated[
    datetime | None,
    typer.Option(
        "--now",
        parser=moment,
        metavar="TIME",
        help="Act as if it were this moment (ISO 8601 with offset) rather than what the clock shows.",
        show_default=False,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, max=HIGHEST, metavar="N", help="At most so many.", show_default=False),
]
OutDir = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder to write into; made if it is not there.")
]
