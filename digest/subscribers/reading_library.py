"""Read a reader's library, which a reference manager exported, without storing the library."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO

from digest.errors import UsageError
from digest.papers import Paper, Record, title_key

if TYPE_CHECKING:
    from digest.dumps.formats import RecordProblem

MAX_ENTRIES = 2_000  #: maximum number of entries of a library


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadLibrary:
    """The papers of a library, each once, and the entries that could not be read."""

    papers: tuple[Paper, ...]
    problems: tuple[RecordProblem, ...]


def read_library(stream: BinaryIO, *, name: str, now: datetime) -> ReadLibrary:
    """Read the papers of a BibTeX, RIS or CSL-JSON file, or of another dump.

    Raises UnreadableDump if the format is not recognised, and UsageError for a file that is empty or too long.
    """
    from digest.dumps import formats  # imports parsers of HTML and XML, which few commands need

    found: dict[str, Paper] = {}
    problems: list[RecordProblem] = []
    for entry in formats.read(stream, name=name, observed_on=now.date()).records:
        if isinstance(entry, formats.RecordProblem):
            problems.append(entry)
            continue
        if len(found) == MAX_ENTRIES:
            raise UsageError(f"{name} has more than {MAX_ENTRIES:,} papers; export a part of it.")
        found.setdefault(title_key(entry.title), paper_of(entry, len(found) + 1, now))
    if not found:
        raise UsageError(f"{name} has no papers that can be read.")
    return ReadLibrary(papers=tuple(found.values()), problems=tuple(problems))


def paper_of(record: Record, number: int, now: datetime) -> Paper:
    """Return a paper that is not in the catalog, with a number as its id."""
    return Paper(
        id=number,
        title=record.title,
        abstract=record.abstract,
        ids=record.ids,
        authors=record.authors,
        categories=record.categories,
        first_seen_at=now,
    )
