"""Packs are published: who follows one is led to the new version, and told so in one letter."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import distinct, func, select
from sqlalchemy.orm import Session, aliased

from digest import outbox, packs, topics
from digest.errors import BadFilter, UsageError
from digest.links import Site
from digest.model import FilterRow, Meaning, Subscriber, SubscriberState, Subscription
from digest.subscriptions import filters
from digest.topics import Pack, Shelf

AT_ONCE = 500  #: letters written together
READS = (SubscriberState.ACTIVE, SubscriberState.PAUSED)  #: who is told, now or on their return


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A filter that somebody holds, and what a new version makes of it."""

    filter_id: int
    canonical: str  #: with `use:`
    before: str  #: what it stood for
    after: str  #: what it stands for then; the same if it cannot follow
    stays_because: str = ""  #: why it cannot follow


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A new version of a pack, and what it means to those who use it. Nothing is changed yet."""

    pack: Pack
    before: Pack | None  #: the version it follows; None for a new pack
    stood: Shelf  #: the packs as they were
    shelf: Shelf  #: the packs as they would be
    turns: tuple[Turn, ...]  #: of the filters that change, or cannot follow

    @property
    def is_new(self) -> bool:
        """Return whether there is anything to publish."""
        return self.before is None or self.before.text != self.pack.text

    @property
    def changed(self) -> tuple[Turn, ...]:
        """Return the filters that will stand for something else."""
        return tuple(turn for turn in self.turns if not turn.stays_because)

    @property
    def staying(self) -> tuple[Turn, ...]:
        """Return the filters that cannot follow."""
        return tuple(turn for turn in self.turns if turn.stays_because)


def step(session: Session, pack: Pack) -> Step:
    """Return what publishing this pack would change; raises BadFilter where it uses what is not there."""
    shelf = packs.shelf(session)
    versions = shelf.get(pack.name, {})
    before = versions[max(versions)] if versions else None
    new = replace(pack, version=max(versions, default=0) + 1)
    new = replace(new, stood_on=topics.stands_on(new, shelf))
    then = {**shelf, pack.name: {**versions, new.version: new}}
    return Step(pack=new, before=before, stood=shelf, shelf=then, turns=tuple(turns(session, then)))


def back(session: Session, name: str) -> Pack:
    """Return what the version before the newest held, to publish it again; raises where there is none."""
    newest = packs.get(session, name)
    if newest.version == 1:
        raise UsageError(f"{name} has one version only; there is nothing to go back to.")
    return replace(packs.get(session, name, newest.version - 1), version=0)


def turns(session: Session, shelf: Shelf) -> Iterable[Turn]:
    """Yield the filters in use that stand for something else on another shelf, or for nothing any more."""
    meant = aliased(FilterRow)
    stored = (
        select(FilterRow.id, FilterRow.canonical, meant.canonical.label("before"))
        .join(Meaning, Meaning.filter_id == FilterRow.id)
        .join(meant, meant.id == Meaning.stands_for_id)
        .order_by(FilterRow.canonical)
    )
    for row in session.execute(stored):
        try:
            after, because = topics.resolved(topics.parse(row.canonical), shelf).canonical, ""
        except BadFilter as error:
            after, because = row.before, error.message
        if because or after != row.before:
            yield Turn(
                filter_id=row.id,
                canonical=row.canonical,
                before=row.before,
                after=after,
                stays_because=because,
            )


def followers(session: Session, some: Iterable[Turn]) -> int:
    """Return how many subscribers hold one of these filters."""
    ids = [turn.filter_id for turn in some]
    theirs = (
        select(func.count(distinct(Subscription.subscriber_id)))
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .where(Subscription.filter_id.in_(ids), Subscriber.state.in_(READS))
    )
    return session.scalar(theirs) or 0


def users(session: Session) -> dict[str, int]:
    """Return how many subscribers use each pack, in whatever version."""
    held = (
        select(Subscription.subscriber_id, FilterRow.canonical)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .join(Meaning, Meaning.filter_id == FilterRow.id)
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .where(Subscriber.state.in_(READS))
    )
    found: dict[str, set[int]] = defaultdict(set)
    for subscriber_id, canonical in session.execute(held):
        for used in topics.parse(canonical).uses:
            found[used.leaf.pack].add(subscriber_id)
    return {name: len(theirs) for name, theirs in found.items()}


def publish(
    session: Session,
    site: Site,
    pack: Pack,
    *,
    effect: Callable[[str, str], Mapping[str, int]],
    puts_back: int | None = None,
    now: datetime,
) -> Step:
    """Publish a pack as the next version of its name, lead its followers there, and write to them.

    `effect` says what a change from one canonical filter to another would have brought lately. Raises
    UsageError where the newest version holds the same already.
    """
    packs.hold_alone(session)
    taken = step(session, pack)
    if not taken.is_new:
        raise UsageError(f"{pack.name} holds the same already in version {taken.pack.version - 1}.")
    packs.put(session, taken.pack, now)
    lead(session, taken.changed)
    tell(session, site, taken, effect, puts_back, now)
    return taken


def lead(session: Session, changed: Sequence[Turn]) -> None:
    """Let filters stand for what they stand for now."""
    if changed:
        filters.filter_ids(session, [turn.after for turn in changed])
        filters.put_meanings(session, {turn.canonical: turn.after for turn in changed})


def tell(
    session: Session,
    site: Site,
    taken: Step,
    effect: Callable[[str, str], Mapping[str, int]],
    puts_back: int | None,
    now: datetime,
) -> None:
    """Write one letter to each follower, into the bulk lane; once for a version, whatever happens."""
    by_filter = {turn.filter_id: turn for turn in taken.changed}
    effects = {number: effect(turn.before, turn.after) for number, turn in by_filter.items()}
    held = (
        select(
            Subscription.subscriber_id,
            Subscriber.email,
            Subscription.name,
            Subscription.filter_id,
            Subscription.typed,
        )
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .where(Subscription.filter_id.in_(by_filter), Subscriber.state.in_(READS))
        .order_by(Subscription.subscriber_id, Subscription.position)
    )
    theirs = defaultdict(list)
    for row in session.execute(held):
        topic = {"name": row.name, "filter": row.typed, **effects[row.filter_id]}
        theirs[row.subscriber_id, row.email].append(topic)
    pack = taken.pack
    said = {
        "name": pack.name,
        "version": pack.version,
        "description": pack.description,
        "puts_back": puts_back,
    }
    letters = (
        {
            "letter": "changed",
            "subscriber_id": subscriber_id,
            "email": email,
            "decision": json.dumps({"pack": said, "topics": changed}, separators=(",", ":")),
            "dedupe_key": f"pack-{pack.name}-{pack.version}-{subscriber_id}",
        }
        for (subscriber_id, email), changed in theirs.items()
    )
    while some := list(islice(letters, AT_ONCE)):
        outbox.put_notices(session, some, site=site, now=now)
