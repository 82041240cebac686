"""Publish a new version of a pack: update the filters that use it, and notify the affected subscribers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import distinct, func, select
from sqlalchemy.orm import Session, aliased

from digest import db
from digest.db.tables.subscribers import (
    SUBSCRIBED,
    FilterRow,
    ResolvedFilter,
    Subscriber,
    Subscription,
)
from digest.delivery.outbox import enqueue, planned_letters
from digest.errors import BadFilter, UsageError
from digest.site.site_profile import Site
from digest.subscribers import filter_registry, stored_packs
from digest.topics import filter_parser, pack_resolution
from digest.topics.pack_files import Pack
from digest.topics.pack_resolution import PackVersions

BATCH_LETTERS = 500  #: number of letters inserted by one statement


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterChange:
    """A filter that subscribers use, as it is before and after a new version of a pack."""

    filter_id: int
    canonical: str  #: the canonical filter, which refers to the pack by `use:`
    before: str  #: the resolved filter that is stored now
    after: str  #: the resolved filter with the new version; equal to `before` if the filter cannot be updated
    blocked_reason: str = ""  #: why the filter cannot be updated; empty if it can


@dataclass(frozen=True, kw_only=True, slots=True)
class PackChange:
    """A new version of a pack that is not stored yet, and its effect on the filters that use the pack."""

    pack: Pack
    before: Pack | None  #: the latest stored version; None for a new pack
    packs_before: PackVersions  #: the current packs
    packs_after: PackVersions  #: the packs after the new version is published
    #: Only filters that the new version changes, or that cannot be updated.
    filter_changes: tuple[FilterChange, ...]

    @property
    def is_new(self) -> bool:
        """Return whether the pack is new or its text has changed, so that it can be published."""
        return self.before is None or self.before.text != self.pack.text

    @property
    def applied(self) -> tuple[FilterChange, ...]:
        """Return the changes of the filters that can be updated."""
        return tuple(change for change in self.filter_changes if not change.blocked_reason)

    @property
    def blocked(self) -> tuple[FilterChange, ...]:
        """Return the changes of the filters that cannot be updated."""
        return tuple(change for change in self.filter_changes if change.blocked_reason)


def plan_pack_change(session: Session, pack: Pack) -> PackChange:
    """Return what publishing this pack would change; raise BadFilter if a filter of it cannot be resolved."""
    packs = stored_packs.load_packs(session)
    versions = packs.get(pack.name, {})
    before = versions[max(versions)] if versions else None
    new = replace(pack, version=max(versions, default=0) + 1)
    new = replace(new, dependency_versions=pack_resolution.pack_dependencies(new, packs))
    packs_after = {**packs, pack.name: {**versions, new.version: new}}
    return PackChange(
        pack=new,
        before=before,
        packs_before=packs,
        packs_after=packs_after,
        filter_changes=tuple(filter_changes(session, packs_after)),
    )


def filter_changes(session: Session, packs_after: PackVersions) -> Iterable[FilterChange]:
    """Yield the stored filters that these packs change, or that can no longer be resolved."""
    resolved = aliased(FilterRow)
    stored = (
        select(FilterRow.id, FilterRow.canonical, resolved.canonical.label("before"))
        .join(ResolvedFilter, ResolvedFilter.filter_id == FilterRow.id)
        .join(resolved, resolved.id == ResolvedFilter.resolved_filter_id)
        .order_by(FilterRow.canonical)
    )
    for row in session.execute(stored):
        try:
            after, reason = (
                pack_resolution.resolve_filter(filter_parser.parse(row.canonical), packs_after).canonical,
                "",
            )
        except BadFilter as error:
            after, reason = row.before, error.message
        if reason or after != row.before:
            yield FilterChange(
                filter_id=row.id,
                canonical=row.canonical,
                before=row.before,
                after=after,
                blocked_reason=reason,
            )


def count_followers(session: Session, changes: Iterable[FilterChange]) -> int:
    """Return the number of active and paused subscribers who use these filters."""
    ids = [change.filter_id for change in changes]
    query = (
        select(func.count(distinct(Subscription.subscriber_id)))
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .where(Subscription.filter_id.in_(ids), Subscriber.state.in_(SUBSCRIBED))
    )
    return session.scalar(query) or 0


def count_pack_users(session: Session) -> dict[str, int]:
    """Return the number of active and paused subscribers who use each pack, in any version."""
    query = (
        select(Subscription.subscriber_id, FilterRow.canonical)
        .join(FilterRow, FilterRow.id == Subscription.filter_id)
        .join(ResolvedFilter, ResolvedFilter.filter_id == FilterRow.id)
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .where(Subscriber.state.in_(SUBSCRIBED))
    )
    found: dict[str, set[int]] = defaultdict(set)
    for subscriber_id, canonical in session.execute(query):
        for used in filter_parser.parse(canonical).uses:
            found[used.leaf.pack].add(subscriber_id)
    return {name: len(ids) for name, ids in found.items()}


def publish(
    session: Session,
    site: Site,
    pack: Pack,
    *,
    effect: Callable[[str, str], Mapping[str, int]],
    puts_back: int | None = None,
    now: datetime,
) -> PackChange:
    """Publish a pack as its next version, update the filters that use it, and queue the letters.

    `effect` compares two canonical filters and returns how recent digests would have differed with the second
    instead of the first. Raises UsageError if the pack equals its latest version, and BadFilter if a filter
    of it cannot be resolved.
    """
    db.lock(session, stored_packs.LOCK)
    change = plan_pack_change(session, pack)
    if not change.is_new:
        raise UsageError(f"{pack.name} is unchanged since version {change.pack.version - 1}.")
    stored_packs.store_pack(session, change.pack, now)
    if change.applied:
        filter_registry.filter_ids(session, [one.after for one in change.applied])
        resolved = {one.canonical: one.after for one in change.applied}
        filter_registry.store_resolved_filters(session, resolved)
    queue_pack_letters(session, site, change, effect, puts_back, now)
    return change


def queue_pack_letters(
    session: Session,
    site: Site,
    change: PackChange,
    effect: Callable[[str, str], Mapping[str, int]],
    puts_back: int | None,
    now: datetime,
) -> None:
    """Queue a letter about the new version, in the bulk lane, to each subscriber of a changed filter."""
    by_filter = {one.filter_id: one for one in change.applied}
    effects = {number: effect(one.before, one.after) for number, one in by_filter.items()}
    query = (
        select(
            Subscription.subscriber_id,
            func.coalesce(Subscriber.owner_email, Subscriber.email).label("email"),
            Subscription.name,
            Subscription.filter_id,
            Subscription.typed,
        )
        .join(Subscriber, Subscriber.id == Subscription.subscriber_id)
        .where(Subscription.filter_id.in_(by_filter), Subscriber.state.in_(SUBSCRIBED))
        .order_by(Subscription.subscriber_id, Subscription.position)
    )
    topics_by_subscriber = defaultdict(list)
    for row in session.execute(query):
        topic = {"name": row.name, "filter": row.typed, **effects[row.filter_id]}
        topics_by_subscriber[row.subscriber_id, row.email].append(topic)
    pack = change.pack
    pack_decision = {
        "name": pack.name,
        "version": pack.version,
        "description": pack.description,
        "puts_back": puts_back,
    }
    letters = (
        {
            "subscriber_id": subscriber_id,
            "email": email,
            **planned_letters.PackLetter(
                pack=pack.name,
                version=pack.version,
                subscriber_id=subscriber_id,
                contents={"pack": pack_decision, "topics": changed},
            ).columns(),
        }
        for (subscriber_id, email), changed in topics_by_subscriber.items()
    )
    while batch := list(islice(letters, BATCH_LETTERS)):
        enqueue.queue_bulk_letters(session, batch, site=site, now=now)
