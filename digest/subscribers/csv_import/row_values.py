"""Parse and check the cells of a row."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy.orm import Session

from digest import addresses
from digest.db.tables import AbstractLength, SubscriberState
from digest.editions import schedule
from digest.editions.schedule import Schedule
from digest.errors import BadField, BadFilter
from digest.subscribers import subscriber_rows
from digest.subscribers.csv_import.csv_rows import SUPPRESSED_STATE, Row
from digest.subscribers.preferences import check_abstracts
from digest.topics import filter_registry
from digest.topics.filter_registry import FilterRegistry

CELLS_CACHED = 4_096  #: distinct topics cells whose parsed filters are cached

CheckedTopics = tuple[tuple[str, str, str], ...]  #: topics: (name, canonical filter, filter as typed)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportRow:
    """One checked row. A value of None is missing in the file and changes nothing."""

    line: int
    address: addresses.Address
    state: SubscriberState
    is_suppressed: bool  #: suppress the address and ignore the other cells
    name: str | None
    cadence: str | None
    at: str | None
    timezone: str | None
    topics: CheckedTopics | None
    packs: CheckedTopics | None = None  #: topics whose filters are single packs
    abstracts: AbstractLength | None = None


def rows_with_lines(rows: Iterable[Row]) -> Iterator[tuple[int, Row | csv.Error]]:
    """Yield each row, or the error of an unreadable row, with its first line number."""
    iterator = iter(rows)
    for number in itertools.count(2):
        row: Row | csv.Error
        try:
            row = next(iterator)
        except StopIteration:
            return
        except csv.Error as error:
            row = error
        yield getattr(rows, "line", number), row


def check_row(
    row: Row | csv.Error, line: int, cell_reader: FilterCellReader, *, may_activate: bool
) -> ImportRow:
    """Return a row with checked values, or raise a UsageError that names the wrong field."""
    if isinstance(row, csv.Error):
        raise BadField("row", f"it cannot be read: {row}.")
    if row.get(None):
        raise BadField("row", "it has more cells than the header. Quote cells that contain the delimiter.")
    cells = {name: unescape_formula(value) for name, value in row.items() if name and value}
    state = cells.get("state", "").lower()
    cadence, at, timezone = cells.get("cadence"), cells.get("at"), cells.get("timezone")
    cached_schedule(cadence=cadence, at=at, timezone=timezone)
    topics = cell_reader.topics_in(cells["topics"]) if "topics" in cells else None
    packs = cell_reader.packs_in(cells["packs"]) if "packs" in cells else None
    if topics and packs:
        subscriber_rows.check_names([name for name, _, _ in (*topics, *packs)])
    return ImportRow(
        line=line,
        address=addresses.parse_address(cells.get("email", "")),
        state=parse_state(state, may_activate=may_activate),
        is_suppressed=state == SUPPRESSED_STATE,
        name=subscriber_rows.one_line(cells["name"]) if "name" in cells else None,
        cadence=cadence,
        at=at,
        timezone=timezone,
        topics=topics,
        packs=packs,
        abstracts=check_abstracts(cells["abstracts"]) if "abstracts" in cells else None,
    )


def unescape_formula(cell: Any) -> str:
    """Return a cell's text without the apostrophe that our export adds before a formula."""
    text = str(cell).strip()
    return text[1:] if text[:1] == "'" and text[1:2] in {"=", "+", "-", "@"} else text


@lru_cache(maxsize=4096)  # readers share a few hundred schedules
def cached_schedule(**cells: str | None) -> Schedule:
    """Return the schedule of these cells, cached because a file has few distinct schedules."""
    return schedule.parse_schedule(**{name: text for name, text in cells.items() if text})


def parse_state(text: str, *, may_activate: bool) -> SubscriberState:
    """Return the state in a cell; pending if the cell is empty or required consent is missing."""
    if text == SUPPRESSED_STATE:
        return SubscriberState.UNSUBSCRIBED
    try:
        state = SubscriberState(text or SubscriberState.PENDING)
    except ValueError:
        raise BadField(
            "state", f"{text!r} is not one of {', '.join(SubscriberState)}, {SUPPRESSED_STATE}."
        ) from None
    if state in {SubscriberState.ACTIVE, SubscriberState.PAUSED} and not may_activate:
        return SubscriberState.PENDING
    return state


class FilterCellReader:
    """A caching parser of cells with filters: most files have few distinct cells."""

    def __init__(self, session: Session):
        self.registry = FilterRegistry(session)
        self.topics_in = lru_cache(maxsize=CELLS_CACHED)(self.read_topics)
        self.packs_in = lru_cache(maxsize=CELLS_CACHED)(self.read_packs)

    def read_topics(self, cell: str) -> CheckedTopics:
        """Return the topics of a JSON object {"name": "filter"}."""
        return self.checked("topics", parse_topics_cell(cell))

    def read_packs(self, cell: str) -> CheckedTopics:
        """Return the topics for a list of packs, `lab/nlp; lab/robots`; each is named after its pack."""
        return self.checked("packs", parse_packs_cell(cell))

    def checked(self, column: str, topics: Mapping[str, str]) -> CheckedTopics:
        """Return the topics in their stored form, or raise BadField."""
        try:
            return tuple(subscriber_rows.check_topics(topics, self.registry))
        except BadFilter as error:
            raise BadField(column, f"in {error.text!r}: {error}") from error


def parse_topics_cell(cell: str) -> dict[str, str]:
    """Return the topics of a JSON object."""
    try:
        topics = json.loads(cell)
    except (ValueError, RecursionError):
        topics = None
    if not isinstance(topics, dict) or not all(isinstance(value, str) for value in topics.values()):
        raise BadField("topics", 'write them as JSON: {"name": "filter"}')
    return topics


def parse_packs_cell(cell: str) -> dict[str, str]:
    """Return {lab/nlp: use:lab/nlp} for each pack in a semicolon-separated list."""
    listed = [name.strip().lower().removeprefix("use:") for name in cell.split(";") if name.strip()]
    return {filter_registry.topic_name_of_pack(name): f"use:{name}" for name in listed}
