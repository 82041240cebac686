"""What a row makes of somebody who stands here already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from digest import editions
from digest.editions import Cadence, Schedule
from digest.model import SubscriberState
from digest.subscriptions import filters, people
from digest.subscriptions.importing.cells import Checked, Wanted, schedule_in

#: What a row may make of somebody who stands here already; anything else keeps them as they are.
ALLOWED = {
    SubscriberState.PENDING: frozenset(SubscriberState),
    SubscriberState.ACTIVE: frozenset({SubscriberState.PAUSED, SubscriberState.UNSUBSCRIBED}),
    SubscriberState.PAUSED: frozenset({SubscriberState.UNSUBSCRIBED}),
    SubscriberState.UNSUBSCRIBED: frozenset[SubscriberState](),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """Somebody as they stand, and what the row asks for beyond it."""

    there: Any  #: their row
    columns: dict[str, Any]  #: only those that change: the others are up to their reader meanwhile
    held: Checked
    topics: Checked  #: those they hold from now on

    @property
    def has_new_topics(self) -> bool:
        """Return whether their topics change."""
        return self.topics != self.held

    @property
    def is_change(self) -> bool:
        """Return whether anything changes."""
        return bool(self.columns) or self.has_new_topics


def merged(there: Any, held: Checked, wanted: Wanted, now: datetime) -> Merged:
    """Return what a row makes of somebody who holds these topics."""
    columns = differing(there, wanted)
    if wanted.state != there.state and wanted.state in ALLOWED[SubscriberState(there.state)]:
        columns |= moved(wanted.state, now)
    topics = topics_after(wanted, held)
    if topics != held:
        columns["full_in_a_row"] = None  # it counts by the place of topics
    return Merged(there=there, columns=columns, held=held, topics=topics)


def differing(there: Any, wanted: Wanted) -> dict[str, Any]:
    """Return the columns in which the row differs from what stands."""
    stands = Schedule(
        cadence=Cadence(there.cadence), at=there.at, timezone=there.timezone, weekday=there.weekday
    )
    schedule = schedule_in(
        wanted.cadence or editions.cadence_spelling(stands),
        wanted.at or f"{there.at:%H:%M}",
        wanted.timezone or there.timezone,
    )
    values: dict[str, Any] = {}
    if schedule != stands:
        values = people.columns(schedule) | {"not_after": there.not_after, "next_due_at": None}
    if wanted.name is not None and wanted.name != there.name:
        values["name"] = wanted.name
    return values


def moved(state: SubscriberState, now: datetime) -> dict[str, Any]:
    """Return the columns of somebody who comes to another state."""
    values: dict[str, Any] = {"state": state}
    if state == SubscriberState.UNSUBSCRIBED:
        values["left_at"] = now
    elif state != SubscriberState.PENDING:
        values["confirmed_at"] = now
    return values


def topics_after(wanted: Wanted, held: Checked) -> Checked:
    """Return the topics of somebody who holds some: each column replaces its kind, packs stand last."""
    if not held:
        return (*(wanted.topics or ()), *(wanted.packs or ()))
    if wanted.topics is None and wanted.packs is None:
        return held
    are_packs = [filters.is_pack(name, canonical) for name, canonical, _ in held]
    own = wanted.topics or ()
    shared = wanted.packs or ()
    if wanted.topics is None:
        own = without([topic for topic, is_pack in zip(held, are_packs, strict=True) if not is_pack], shared)
    if wanted.packs is None:
        shared = without([topic for topic, is_pack in zip(held, are_packs, strict=True) if is_pack], own)
    return (*own, *shared)


def without(topics: Iterable[tuple[str, str, str]], others: Checked) -> Checked:
    """Return topics but those called as one of the others."""
    taken = {name.casefold() for name, _, _ in others}
    return tuple(topic for topic in topics if topic[0].casefold() not in taken)
