"""Define what the digests of one moment are made from, and load what is needed to decide them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.subscribers import FilterRow, ResolvedFilter, Subscriber, Subscription
from digest.delivery import press_store
from digest.delivery import shown as shown_papers
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.press.load_templates import letters_of
from digest.letters.press.press_value import Press
from digest.letters.templates import Templates
from digest.papers.catalog import other_versions
from digest.process.caches import Caches
from digest.publishing import pending_updates
from digest.publishing.due_readers import READER_COLUMNS, count_due
from digest.publishing.match_index import MatchIndex
from digest.publishing.reader_values import GatheredInputs, Reader, Topic
from digest.site.site_profile import Site

#: Maximum number of match indexes in the cache: one for the press being published, one for previews and
#: `why`.
MAX_MATCH_INDEXES = 2

# Queries use Core tables, because the ORM would process every row as an object. Statements that run for every
# chunk are built once, since building a statement takes as long as running it.
SUBSCRIPTION_COLUMNS: Any = Subscription.__table__.c
FILTER_COLUMNS: Any = FilterRow.__table__.c
RESOLVED_COLUMNS: Any = ResolvedFilter.__table__.c
SUBSCRIPTIONS_QUERY = (
    select(SUBSCRIPTION_COLUMNS.subscriber_id, SUBSCRIPTION_COLUMNS.name, SUBSCRIPTION_COLUMNS.filter_id)
    .where(
        db.one_of(
            SUBSCRIPTION_COLUMNS.subscriber_id, db.values_param("ids", SUBSCRIPTION_COLUMNS.subscriber_id)
        ),
        SUBSCRIPTION_COLUMNS.is_muted.is_(False),
    )
    .order_by(SUBSCRIPTION_COLUMNS.subscriber_id, SUBSCRIPTION_COLUMNS.position, SUBSCRIPTION_COLUMNS.id)
)
FILTERS_QUERY = select(FILTER_COLUMNS.id, FILTER_COLUMNS.canonical).where(
    db.one_of(FILTER_COLUMNS.id, db.values_param("ids", FILTER_COLUMNS.id), is_small_table=True)
)
RESOLVED_FILTERS_QUERY = select(RESOLVED_COLUMNS.filter_id, RESOLVED_COLUMNS.resolved_filter_id)


@dataclass(frozen=True)
class Publication:
    """What the digests of one moment are made from; the papers are ranked when they are first needed."""

    session: Session
    _: KW_ONLY
    site: Site
    templates: Templates
    caches: Caches
    now: datetime
    fixed_press: Press | None = None  #: the press, if it is not that of a run at `now`
    also_due: int | None = None  #: the id of a subscriber who counts as due

    @cached_property
    def press(self) -> Press:
        """Return the press that a run at `now` would use, without storing it."""
        if self.fixed_press is not None:
            return self.fixed_press
        since = press_store.press_start(self.now, count_due(self.session, self.now, self.also_due)[1])
        return press_store.build_press(
            self.session,
            site=self.site,
            templates=self.templates,
            caches=self.caches,
            now=self.now,
            since=since,
        )[0]

    @cached_property
    def match_index(self) -> MatchIndex:
        """Return the match index of the press, from the cache if it was used recently.

        The ids of filters differ between databases, so an index is never shared by two databases, even for
        the same press.
        """
        key = self.session.get_bind().engine.url, self.press.name
        return self.caches.get_or_make(
            "match index", key, lambda: MatchIndex(self.press), bound=MAX_MATCH_INDEXES
        )

    @cached_property
    def letters(self) -> DigestLetters:
        """Return the letters of the press."""
        return letters_of(self.press, self.site, self.templates, self.caches)

    def load_reader(self, subscriber_id: int) -> Reader:
        """Return the columns of one subscriber that are needed for a decision."""
        query = select(*READER_COLUMNS).where(Subscriber.id == subscriber_id)
        return Reader._make(self.session.execute(query).one())


def gather_inputs(publication: Publication, readers: Sequence[Reader]) -> GatheredInputs:
    """Return these readers with their topics, the press's papers that they were shown, and their updates."""
    session, match_index = publication.session, publication.match_index
    ids = [reader.id for reader in readers]
    topics = topics_of(session, ids) if ids else {}
    evaluate_filters(session, match_index, {number for some in topics.values() for _, number in some})
    shown, shown_paper = defaultdict[int, set[int]](set), shown_papers.SHOWN_TABLE.c.paper_id
    if ids and match_index.ids:
        for subscriber_id, paper_id in shown_papers.shown_to(
            session, ids, shown_paper >= min(match_index.ids)
        ):
            number = match_index.press.rank_of_paper.get(paper_id)
            if number is not None:
                shown[subscriber_id].add(number)
    versions = earlier_versions(session, match_index)
    if ids and versions:
        later: dict[int, set[int]] = defaultdict(set)
        for number, some in versions.items():
            for earlier in some:
                later[earlier].add(number)
        for subscriber_id, paper_id in shown_papers.shown_to(session, ids, db.one_of(shown_paper, later)):
            shown[subscriber_id] |= later[paper_id]
    pending = pending_updates.load_pending(session, readers, publication.now)
    return GatheredInputs(match_index, publication.now, readers, topics, shown, pending, versions)


def earlier_versions(session: Session, match_index: MatchIndex) -> Mapping[int, Collection[int]]:
    """Return {paper number: ids of the paper's earlier versions} for the papers of the press."""
    if not match_index.ids:
        return {}
    stored = other_versions.earlier_versions(session, since_id=min(match_index.ids))
    ranks = match_index.press.rank_of_paper
    return {ranks[paper]: some for paper, some in stored.items() if paper in ranks}


def topics_of(session: Session, ids: Sequence[int]) -> Mapping[int, Sequence[Topic]]:
    """Return the topics of each subscriber, in the order that the subscriber chose.

    A filter that uses packs is replaced by the filter to which it resolves, whose id decisions store.
    """
    connection, topics = session.connection(), defaultdict[int, list[Topic]](list)
    resolved = {row[0]: row[1] for row in connection.execute(RESOLVED_FILTERS_QUERY)}
    for subscriber_id, name, number in connection.execute(SUBSCRIPTIONS_QUERY, {"ids": ids}).all():
        topics[subscriber_id].append((name, resolved.get(number, number)))
    return topics


def evaluate_filters(session: Session, match_index: MatchIndex, numbers: Iterable[int]) -> None:
    """Evaluate those filters that the match index does not contain yet."""
    match_index.limit_filters()
    new = [number for number in numbers if number not in match_index.choices]
    if new:
        found = session.connection().execute(FILTERS_QUERY, {"ids": new})
        match_index.evaluate({row[0]: row[1] for row in found})
