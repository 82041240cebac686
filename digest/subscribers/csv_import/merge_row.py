"""Compute the changes that a row makes to an existing subscriber."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.subscribers import filter_registry, reader_settings
from digest.subscribers.csv_import.row_values import CheckedTopics, ImportRow
from digest.subscribers.subscriber_topics import StoredTopic, folded_name

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
