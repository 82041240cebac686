"""Compute the changes that a row makes to an existing subscriber."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from digest.db.tables.subscribers import SubscriberState
from digest.subscribers import reader_settings
from digest.subscribers.csv_import.row_values import CheckedTopics, ImportRow
from digest.topics import filter_registry

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

    existing: Any  #: the subscriber's row
    row: ImportRow
    #: Only changed columns, because the subscriber may be editing the others at this moment.
    columns: dict[str, Any]
    held: CheckedTopics  #: the subscriber's topics before the import
    topics: CheckedTopics  #: the subscriber's topics after the import

    @property
    def has_new_topics(self) -> bool:
        """Return whether the row changes the subscriber's topics."""
        return self.topics != self.held

    @property
    def is_change(self) -> bool:
        """Return whether the row changes the subscriber."""
        return bool(self.columns) or self.has_new_topics


def merge_row(existing: Any, held: CheckedTopics, row: ImportRow, now: datetime) -> MergedSubscriber:
    """Return the changes that a row makes to a subscriber whose current topics are `held`."""
    columns = differing_columns(existing, row)
    if row.state != existing.state and row.state in ALLOWED_TRANSITIONS[SubscriberState(existing.state)]:
        columns |= state_columns(row, now)
    topics = topics_after(row, held)
    return MergedSubscriber(existing=existing, row=row, columns=columns, held=held, topics=topics)


def differing_columns(existing: Any, row: ImportRow) -> dict[str, Any]:
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
    if not held:
        return (*(row.topics or ()), *(row.packs or ()))
    if row.topics is None and row.packs is None:
        return held
    are_packs = [filter_registry.is_pack_topic(name, canonical) for name, canonical, _ in held]
    own = row.topics or ()
    shared = row.packs or ()
    if row.topics is None:
        own = without_named(
            [topic for topic, is_pack in zip(held, are_packs, strict=True) if not is_pack], shared
        )
    if row.packs is None:
        shared = without_named(
            [topic for topic, is_pack in zip(held, are_packs, strict=True) if is_pack], own
        )
    return (*own, *shared)


def without_named(topics: Iterable[tuple[str, str, str]], others: CheckedTopics) -> CheckedTopics:
    """Return the topics whose names do not occur in `others`."""
    taken = {name.casefold() for name, _, _ in others}
    return tuple(topic for topic in topics if topic[0].casefold() not in taken)


def row_of_sync(existing: Any, row: ImportRow) -> ImportRow:
    """Return a copy of the row with only its address and packs, and with the subscriber's current state.

    A synchronized list changes only the packs of an existing subscriber. Members who unsubscribed stay
    unsubscribed and keep their packs.
    """
    packs = () if row.packs is None and row.lists_packs else row.packs
    if existing.state == SubscriberState.UNSUBSCRIBED and not existing.is_removed_by_sync:
        packs = None
    return ImportRow(
        line=row.line,
        address=row.address,
        state=SubscriberState(existing.state),
        is_suppressed=False,
        packs=packs,
        lists_packs=row.lists_packs,
    )


def returning_columns(existing: Any) -> dict[str, Any]:
    """Return the column values that restore a removed member who is in the list again."""
    state = SubscriberState.ACTIVE if existing.confirmed_at else SubscriberState.PENDING
    return {"state": state, "unsubscribed_at": None, "is_removed_by_sync": False, "next_due_at": None}
