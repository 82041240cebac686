"""The cells of a file, and what a row of them asks for."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TextIO

from sqlalchemy.orm import Session

from digest import addresses, editions
from digest.editions import Schedule
from digest.errors import BadField, BadFilter
from digest.model import SubscriberState
from digest.subscriptions import filters, people
from digest.subscriptions.filters import Books

COLUMNS = ("email", "name", "cadence", "at", "timezone", "state", "topics", "packs")
REMEMBERED = 4_096  #: cells of topics; a longer file forgets the oldest

Row = Mapping[Any, Any]  #: cells by column; what has no column is under None
Checked = tuple[tuple[str, str, str], ...]  #: topics: (name, canonical filter, filter as typed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """One row, checked. What is None was not in the file and stays as it stands."""

    line: int
    address: addresses.Address
    state: SubscriberState
    name: str | None
    cadence: str | None
    at: str | None
    timezone: str | None
    topics: Checked | None
    packs: Checked | None = None  #: topics that are filters of packs, as they are


def rows_in(file: TextIO) -> csv.DictReader[str]:
    """Return the rows of a CSV file, or raise BadField where its header has no `email`."""
    reader = csv.DictReader(file, restkey=None)
    names = [name.strip().lower().lstrip("\ufeff") for name in reader.fieldnames or ()]
    if "email" not in names:
        raise BadField("line 1", f"no column is called email. The columns are {', '.join(COLUMNS)}.")
    reader.fieldnames = names
    return reader


def numbered(rows: Iterable[Row]) -> Iterator[tuple[int, Row | csv.Error]]:
    """Yield the rows with the line each begins on; one that cannot be read at all as its error."""
    line, iterator = 2, iter(rows)
    for number in itertools.count(2):
        row: Row | csv.Error
        try:
            row = next(iterator)
        except StopIteration:
            return
        except csv.Error as error:
            row = error
        ends = getattr(rows, "line_num", None)
        yield (line if ends else number), row
        line = (ends or 0) + 1


def checked(row: Row | csv.Error, line: int, pages: Pages, *, may_activate: bool) -> Wanted:
    """Return what a row asks for, or raise the error that says which field is wrong."""
    if isinstance(row, csv.Error):
        raise BadField("row", f"it cannot be read: {row}.")
    if row.get(None):
        raise BadField("row", "it has more cells than the header. Quote cells that hold a comma.")
    cells = {name: unescaped(value) for name, value in row.items() if name and value}
    cadence, at, timezone = cells.get("cadence"), cells.get("at"), cells.get("timezone")
    schedule_in(cadence or "daily", at or "08:00", timezone or "UTC")
    topics = pages.topics_in(cells["topics"]) if "topics" in cells else None
    packs = pages.packs_in(cells["packs"]) if "packs" in cells else None
    if topics and packs:
        people.check_names([name for name, _, _ in (*topics, *packs)])
    return Wanted(
        line=line,
        address=addresses.checked(cells.get("email", "")),
        state=state_in(cells.get("state", ""), may_activate=may_activate),
        name=people.one_line(cells["name"]) if "name" in cells else None,
        cadence=cadence,
        at=at,
        timezone=timezone,
        topics=topics,
        packs=packs,
    )


def unescaped(cell: Any) -> str:
    """Return a cell's text without the apostrophe that our own export puts before a formula."""
    text = str(cell).strip()
    return text[1:] if text[:1] == "'" and text[1:2] in {"=", "+", "-", "@"} else text


@lru_cache(maxsize=4096)
def schedule_in(cadence: str, at: str, timezone: str) -> Schedule:
    """Return the schedule of those words; a file has few distinct ones."""
    return editions.schedule_in(cadence=cadence, at=at, timezone=timezone)


def state_in(text: str, *, may_activate: bool) -> SubscriberState:
    """Return the state a row asks for; active is pending where nobody said how they agreed."""
    try:
        state = SubscriberState(text.lower() or SubscriberState.ACTIVE)
    except ValueError:
        raise BadField("state", f"{text!r} is none of {', '.join(SubscriberState)}.") from None
    if state in {SubscriberState.ACTIVE, SubscriberState.PAUSED} and not may_activate:
        return SubscriberState.PENDING
    return state


class Pages:
    """The cells of a file that hold filters: most files have few distinct ones, and each is read once."""

    def __init__(self, session: Session):
        self.books = Books(session)
        self.topics_in = lru_cache(maxsize=REMEMBERED)(self.read_topics)
        self.packs_in = lru_cache(maxsize=REMEMBERED)(self.read_packs)

    def read_topics(self, cell: str) -> Checked:
        """Return the topics of a JSON object {"name": "filter"}."""
        return self.checked("topics", topics_of(cell))

    def read_packs(self, cell: str) -> Checked:
        """Return the topics of a list of packs, `lab/nlp; lab/robots`: each is called as it is listed."""
        return self.checked("packs", packs_of(cell))

    def checked(self, column: str, topics: Mapping[str, str]) -> Checked:
        """Return the topics as they are stored, or raise BadField."""
        try:
            return tuple(people.checked_topics(topics, self.books))
        except BadFilter as error:
            raise BadField(column, f"in {error.text!r}: {error}") from error


def topics_of(cell: str) -> dict[str, str]:
    """Return the topics of a JSON object."""
    try:
        topics = json.loads(cell)
    except (ValueError, RecursionError):
        topics = None
    if not isinstance(topics, dict) or not all(isinstance(value, str) for value in topics.values()):
        raise BadField("topics", 'write them as JSON: {"name": "filter"}')
    return topics


def packs_of(cell: str) -> dict[str, str]:
    """Return {lab/nlp: use:lab/nlp} for each pack in a list parted by semicolons."""
    listed = [name.strip().lower().removeprefix("use:") for name in cell.split(";") if name.strip()]
    return {filters.name_of(name): f"use:{name}" for name in listed}
