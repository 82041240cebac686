"""Parse and check the cells of a row, and compute the changes that it makes to an existing subscriber."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy.orm import Session

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import BadField, BadFilter
from digest.mail import addresses
from digest.subscribers import filter_registry, reader_settings, subscriber_rows, subscriber_topics
from digest.subscribers.csv_import.file_rows import SUPPRESSED_STATE, Row
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import SETTINGS, Texts
from digest.subscribers.subscriber_topics import CheckedTopic, StoredTopic, folded_name

CELLS_CACHED = 4_096  #: maximum number of cells whose parsed filters are cached

CheckedTopics = tuple[CheckedTopic, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportRow:
    """A checked row. None stands for a value that the file does not contain, and changes nothing."""

    line: int
    address: addresses.Address
    state: SubscriberState
    is_suppressed: bool  #: whether to suppress the row's address and ignore its other cells
    topics: CheckedTopics | None = None
    packs: CheckedTopics | None = None  #: the pack topics; each consists of a single pack
    lists_packs: bool = False  #: whether the file has a `packs` column
    muted: frozenset[str] | None = None  #: case-folded names of the topics to mute
    texts: Texts = field(default_factory=dict)  #: the reader's settings
    name: str | None = None
    owner_email: str | None = None
    paused_until: date | None = None  #: the day on which the subscriber's pause ends
    confirmed_at: datetime | None = None
    consent: str = ""  #: how the subscriber agreed, from the `consent` column; empty without the column
    returns: bool = False  #: whether to resubscribe a member who was missing from an earlier list


def rows_with_lines(rows: Iterable[Row]) -> Iterator[tuple[int, Row | csv.Error]]:
    """Yield (first line number, row) for each row; an unreadable row is replaced by its error."""
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
    """Return a row with checked values, or raise a UsageError that names the invalid field."""
    if isinstance(row, csv.Error):
        raise BadField("row", f"the row cannot be read: {row}.")
    if row.get(None):
        raise BadField(
            "row", "the row has more cells than the header. Quote cells that contain the delimiter."
        )
    cells = {name: unescape_formula(value) for name, value in row.items() if name and value}
    state = cells.get("state", "").lower()
    texts = {name: cells[name] for name in SETTINGS if name in cells}
    reader_settings.columns_of(texts)
    topics = cell_reader.topics_in(cells["topics"]) if "topics" in cells else None
    packs = cell_reader.packs_in(cells["packs"]) if "packs" in cells else None
    if topics and packs:
        subscriber_topics.check_names([name for name, _, _ in (*topics, *packs)])
    address = addresses.parse_address(cells.get("email", ""))
    return ImportRow(
        line=line,
        address=address,
        state=parse_state(state, may_activate=may_activate or bool(cells.get("consent"))),
        is_suppressed=state == SUPPRESSED_STATE,
        topics=topics,
        packs=packs,
        lists_packs="packs" in row,
        muted=parse_names(cells["muted"]) if "muted" in cells else None,
        texts=texts,
        name=subscriber_topics.clean_line(cells["name"]) if "name" in cells else None,
        owner_email=subscriber_rows.check_owner(address.email, cells["owner"]) if "owner" in cells else None,
        paused_until=parse_day(cells["paused_until"]) if cells.get("paused_until") else None,
        confirmed_at=parse_moment(cells["confirmed_at"]) if cells.get("confirmed_at") else None,
        consent=subscriber_topics.clean_line(cells.get("consent", "")),
    )


def parse_names(cell: str) -> frozenset[str]:
    """Return the case-folded names in a list separated by semicolons."""
    return frozenset(name.strip().casefold() for name in cell.split(";") if name.strip())


def parse_day(text: str) -> date:
    """Return the day on which a pause ends."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadField("paused_until", f"{text!r} is not a day; write one such as 2026-11-20.") from None


def parse_moment(text: str) -> datetime:
    """Return the time of a confirmation; without an offset it is in UTC, and a date alone means midnight."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadField("confirmed_at", f"{text!r} is not a time; write one such as 2026-11-20.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def unescape_formula(cell: Any) -> str:
    """Return a cell's text without the apostrophe that our exports put before a formula."""
    text = str(cell).strip()
    return text[1:] if text[:1] == "'" and text[1:2] in {"=", "+", "-", "@"} else text


def parse_state(text: str, *, may_activate: bool) -> SubscriberState:
    """Return the state in a cell; raise BadField if it is unknown.

    It is pending if the cell is empty or a required consent is missing, and unsubscribed for `suppressed`.
    """
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
    """A parser of filter cells that caches its results, since most files have few distinct cells."""

    def __init__(self, session: Session):
        self.registry = FilterRegistry(session)
        self.topics_in = lru_cache(maxsize=CELLS_CACHED)(self.read_topics)
        self.packs_in = lru_cache(maxsize=CELLS_CACHED)(self.read_packs)

    def read_topics(self, cell: str) -> CheckedTopics:
        """Return the topics of a JSON object {"name": "filter"}."""
        return self.checked("topics", parse_topics_cell(cell))

    def read_packs(self, cell: str) -> CheckedTopics:
        """Return a topic for each pack in a list such as `lab/nlp; lab/robots`, named after its pack."""
        return self.checked("packs", parse_packs_cell(cell))

    def checked(self, column: str, topics: Mapping[str, str]) -> CheckedTopics:
        """Return the topics in their stored form, or raise BadField."""
        try:
            return tuple(subscriber_topics.check_topics(topics, self.registry))
        except BadFilter as error:
            raise BadField(column, f"in {error.text!r}: {error}") from error


def parse_topics_cell(cell: str) -> dict[str, str]:
    """Return the topics of a JSON object, or of a list such as `Vision=image*; Robots=robot*`."""
    if cell.lstrip()[:1] not in {"{", "["}:
        return dict(parse_named_filter(part) for part in split_outside_quotes(cell) if part.strip())
    try:
        topics = json.loads(cell)
    except (ValueError, RecursionError):
        topics = None
    if not isinstance(topics, dict) or not all(isinstance(value, str) for value in topics.values()):
        raise BadField("topics", HOW_TO_WRITE_TOPICS)
    return topics


HOW_TO_WRITE_TOPICS = 'write Name=filter; Name=filter, or JSON: {"Name": "filter"}'
NOT_IN_NAMES = frozenset('":()<>')  #: characters that occur in filters but not in the name before an `=`


def split_outside_quotes(cell: str) -> list[str]:
    """Split a list at its semicolons, except those inside a quoted phrase of a filter."""
    parts = [""]
    for number, piece in enumerate(cell.split('"')):
        is_phrase = number % 2 == 1
        first, *others = [piece] if is_phrase else piece.split(";")
        parts[-1] += ('"' if number else "") + first
        parts += others
    return parts


def parse_named_filter(text: str) -> tuple[str, str]:
    """Return the name and the filter of `Name=filter`."""
    name, equals, filter_text = text.partition("=")
    if not equals or not name.strip() or not filter_text.strip() or NOT_IN_NAMES & set(name):
        raise BadField("topics", f"{text.strip()!r} has no name; {HOW_TO_WRITE_TOPICS}")
    return name.strip(), filter_text.strip()


def parse_packs_cell(cell: str) -> dict[str, str]:
    """Return {lab/nlp: use:lab/nlp} for each pack in a semicolon-separated list."""
    listed = [name.strip().lower().removeprefix("use:") for name in cell.split(";") if name.strip()]
    return {filter_registry.topic_name_of_pack(name): f"use:{name}" for name in listed}


# ── merging ──────────────────────────────────────────────────────────────────────────────────────────


#: The states to which a row may move a subscriber, keyed by current state; other states are ignored.
ALLOWED_TRANSITIONS = {
    SubscriberState.PENDING: frozenset(SubscriberState),
    SubscriberState.ACTIVE: frozenset({SubscriberState.PAUSED, SubscriberState.UNSUBSCRIBED}),
    SubscriberState.PAUSED: frozenset({SubscriberState.UNSUBSCRIBED}),
    SubscriberState.UNSUBSCRIBED: frozenset[SubscriberState](),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MergedSubscriber:
    """An existing subscriber and the changes that a row makes."""

    existing: Subscriber
    row: ImportRow
    #: Only changed columns, because the subscriber may be editing the others at this moment.
    columns: dict[str, Any]
    held: CheckedTopics  #: the subscriber's topics before the import
    topics: CheckedTopics  #: the subscriber's topics after the import
    muted: Collection[str]  #: the folded names of the muted ones

    @property
    def is_change(self) -> bool:
        """Return whether the row changes the subscriber."""
        return bool(self.columns) or self.topics != self.held


def merge_row(
    existing: Subscriber, stored: Sequence[StoredTopic], row: ImportRow, now: datetime
) -> MergedSubscriber:
    """Return the changes that a row makes to a subscriber with these topics."""
    columns = differing_columns(existing, row)
    if row.returns:
        state = SubscriberState.ACTIVE if existing.confirmed_at else SubscriberState.PENDING
        columns |= {"state": state, "unsubscribed_at": None, "is_removed_by_sync": False, "next_due_at": None}
    elif row.state != existing.state and row.state in ALLOWED_TRANSITIONS[SubscriberState(existing.state)]:
        columns |= state_columns(row, now)
    held = tuple((one.name, one.canonical, one.typed) for one in stored)
    muted = {folded_name(one.name) for one in stored if one.is_muted} if row.muted is None else row.muted
    topics = topics_after(row, held)
    return MergedSubscriber(
        existing=existing, row=row, columns=columns, held=held, topics=topics, muted=muted
    )


def differing_columns(existing: Subscriber, row: ImportRow) -> dict[str, Any]:
    """Return those column values of a row that differ from the subscriber's."""
    given = {**reader_settings.columns_of(row.texts), "name": row.name, "owner_email": row.owner_email}
    values = {
        column: value for column, value in given.items() if value not in {None, getattr(existing, column)}
    }
    if reader_settings.are_scheduling(values):
        values["next_due_at"] = None
    if "owner_email" in values:  # the former owner, or the group's members, have links that must stop working
        values["link_version"] = existing.link_version + 1
    return values


def state_columns(row: ImportRow, now: datetime) -> dict[str, Any]:
    """Return the values of `state` and of the columns that change with it, such as `confirmed_at`."""
    values: dict[str, Any] = {"state": row.state}
    if row.state == SubscriberState.UNSUBSCRIBED:
        values["unsubscribed_at"] = now
    elif row.state != SubscriberState.PENDING:
        values["confirmed_at"] = min(row.confirmed_at or now, now)
    if row.state == SubscriberState.PAUSED:
        values["paused_until"] = row.paused_until
    return values


def topics_after(row: ImportRow, held: CheckedTopics) -> CheckedTopics:
    """Return a subscriber's topics after the import of a row.

    The column `topics` replaces the subscriber's own filters, and the column `packs` replaces the packs,
    which come last.
    """
    own, shared = row.topics, row.packs
    if own is None:
        own = kept_topics(held, shared or (), are_packs=False)
    if shared is None:
        shared = kept_topics(held, own, are_packs=True)
    return held if row.topics is row.packs is None else (*own, *shared)


def kept_topics(held: CheckedTopics, new: CheckedTopics, *, are_packs: bool) -> CheckedTopics:
    """Return the own filters or the packs that a subscriber keeps: those whose names no new topic has."""
    taken = {folded_name(name) for name, _, _ in new}
    return tuple(
        (name, canonical, typed)
        for name, canonical, typed in held
        if filter_registry.is_pack_topic(name, canonical) == are_packs and folded_name(name) not in taken
    )
