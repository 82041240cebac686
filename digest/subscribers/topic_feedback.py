"""Change a subscriber's topics for "less like this" and "more like this", by examples.

"Less" leaves out the papers similar to one paper; "more" adds an example. Nothing is learned from what a reader
does: a topic changes only when its owner presses a button or writes a command, and every change can be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from digest import plurals
from digest.db.tables.subscribers import Subscriber
from digest.errors import BadFilter
from digest.letters import figures_in_words
from digest.papers import bitsets
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.papers.paper_record import Paper
from digest.process.caches import Caches
from digest.site.site_profile import Site
from digest.subscribers import recent_papers, saved_papers, subscriber_topics, undo_changes
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings
from digest.subscribers.recent_papers import RecentPapers
from digest.subscribers.subscriber_topics import SubscriberTopic
from digest.topics import example_topics, explanation, filter_parser, filter_tree
from digest.topics.example_topics import ExampleTopic, topic_like
from digest.topics.filter_parser import Filter

MAX_TITLES = 3  #: maximum number of titles in the sentence about a change's effect
MAX_TITLE_LENGTH = 80
MIN_EXAMPLES, MAX_EXAMPLES = 3, 20  #: minimum and maximum number of saved papers from which a topic is made


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicChange:
    """A change of one topic, and the effect that it would have had on past days."""

    topic: str
    before: str  #: the filter as shown to its owner; "" for a new topic
    after: str
    drops: bool  #: whether the change removes papers from the topic
    papers: int  #: number of papers that the topic matched on the examined days
    changed: int  #: number of papers that the change drops or adds
    titles: tuple[str, ...]  #: the titles of the latest papers that the change drops or adds
    days: int  #: number of days that were examined

    @property
    def sentence(self) -> str:
        """Return the effect, such as `Drops 4 of 31 papers of the last 31 days: A; B; C; and 1 more.`"""
        if not self.titles:
            return f"{self.effect}."
        others = self.changed - len(self.titles)
        named = "; ".join([*self.titles, *([f"and {others} more"] if others > 0 else [])])
        return f"{self.effect}: {named}."

    @property
    def effect(self) -> str:
        """Return the effect as a phrase, such as `Drops 4 of 31 papers of the last 31 days`."""
        days = "of the last day" if self.days == 1 else f"of the last {self.days} days"
        if self.drops:
            return f"Drops {self.changed} of {plurals.count(self.papers, 'paper')} {days}"
        return f"Adds {plurals.count(self.changed, 'paper')} to the {self.papers} {days}"


def changes_for_less(
    session: Session, caches: Caches, subscriber: Subscriber, paper_id: int, *, now: datetime
) -> tuple[TopicChange, ...]:
    """Return the changes that leave papers like this one out of the topics that match it.

    Raises NotFound for an unknown paper.
    """
    paper, registry = queries.find(session, str(paper_id)), FilterRegistry(session)
    recent = recent_papers.recent_papers(session, caches, now=now)
    return tuple(
        change
        for topic, resolved in read_topics(registry, subscriber)
        if explanation.explain(resolved, paper).matched
        for change in changes_to(topic, resolved, narrowed(topic, paper), registry, recent)
    )


def changes_for_more(
    session: Session, caches: Caches, subscriber: Subscriber, paper_id: int, *, now: datetime
) -> tuple[TopicChange, ...]:
    """Return the change that adds a paper to the topic by example that matches it, or makes such a topic.

    Raises NotFound for an unknown paper.
    """
    paper, registry = queries.find(session, str(paper_id)), FilterRegistry(session)
    recent = recent_papers.recent_papers(session, caches, now=now)
    owned = read_topics(registry, subscriber)
    for topic, resolved in owned:
        extended = example_topics.with_example(topic.text, paper)
        if extended is not None and explanation.explain(resolved, paper).matched:
            return changes_to(topic, resolved, extended, registry, recent)
    new = topic_like([paper])
    name = subscriber_topics.free_name(new.name, [topic.name for topic, _ in owned])
    return (change_of(name, "", new.filter, 0, recent.index.matches(registry.read(new.filter)), recent),)


def narrowed(topic: SubscriberTopic, paper: Paper) -> str:
    """Return the filter of a topic without the papers that are similar to one paper."""
    is_or = isinstance(filter_parser.parse(topic.canonical).tree, filter_tree.Or)
    return example_topics.without_similar(topic.text, paper, is_or=is_or)


def changes_to(
    topic: SubscriberTopic, resolved: Filter, after: str, registry: FilterRegistry, recent: RecentPapers
) -> tuple[TopicChange, ...]:
    """Return the change of a topic, or () if the new filter is too long or the same."""
    try:
        found = recent.index.matches(registry.resolve_text(after))
    except BadFilter:
        return ()
    if after == topic.text:
        return ()
    return (change_of(topic.name, topic.text, after, recent.index.matches(resolved), found, recent),)


def change_of(
    name: str, before: str, after: str, matched: int, matches: int, recent: RecentPapers
) -> TopicChange:
    """Return a change with the titles of the papers that it drops or adds, latest first."""
    drops = bool(matched & ~matches)
    changed = bitsets.members(matched & ~matches if drops else matches & ~matched)
    changed.sort(key=lambda number: recent.days[number], reverse=True)
    titles = [display(recent.index.papers[number].title) for number in changed[:MAX_TITLES]]
    return TopicChange(
        topic=name,
        before=before,
        after=after,
        drops=drops or " ANDNOT like:" in after.removeprefix(before),
        papers=matched.bit_count(),
        changed=len(changed),
        titles=tuple(figures_in_words.cut_at_word(title, MAX_TITLE_LENGTH) for title in titles),
        days=len({*recent.days}),
    )


def changed_topics(
    session: Session, subscriber: Subscriber, changes: Sequence[TopicChange]
) -> dict[str, str] | None:
    """Return the subscriber's topics after these changes; None if there are none, or if a topic differs now."""
    current = {topic.name: topic.text for topic in subscriber_topics.topics_of(session, subscriber)}
    if not changes or any(current.get(one.topic, "") != one.before for one in changes):
        return None
    return {**current, **{one.topic: one.after for one in changes}}


def propose_saved_topic(session: Session, subscriber: Subscriber) -> ExampleTopic | None:
    """Return a topic made from the saved papers that no topic matches; None if fewer than three are left.

    Only papers saved since the subscriber last accepted or declined a proposed topic count.
    """
    since = subscriber.saved_topic_decided_at
    saved = saved_papers.list_saved(session, subscriber.id)
    fresh = [paper for paper, at in saved if since is None or at > since][:MAX_EXAMPLES]
    resolved = [filter_ for _, filter_ in read_topics(FilterRegistry(session), subscriber)]
    unmatched = [
        paper for paper in fresh if not any(explanation.explain(one, paper).matched for one in resolved)
    ]
    return topic_like(unmatched) if len(unmatched) >= MIN_EXAMPLES else None


def change_topics(
    session: Session, site: Site, subscriber: Subscriber, changes: Sequence[TopicChange], *, now: datetime
) -> bool:
    """Change topics; return False if one has changed since the changes were found, or if there are none."""
    changed = changed_topics(session, subscriber, changes)
    return bool(changed) and undo_changes.save_settings(
        session, site, subscriber, ReaderSettings(topics=changed), now=now
    )


def decide_saved_topic(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    topic: ExampleTopic | None,
    *,
    now: datetime,
) -> None:
    """Add the topic proposed for the saved papers; `topic` is None if the subscriber declined it.

    Papers saved before `now` count towards no later proposal.
    """
    subscriber.saved_topic_decided_at = now
    if topic is not None:
        found = {one.name: one.text for one in subscriber_topics.topics_of(session, subscriber)}
        name = subscriber_topics.free_name(topic.name, found)
        chosen = ReaderSettings(topics={**found, name: topic.filter})
        undo_changes.save_settings(session, site, subscriber, chosen, now=now)


def read_topics(registry: FilterRegistry, subscriber: Subscriber) -> Sequence[tuple[SubscriberTopic, Filter]]:
    """Return the subscriber's unmuted topics with their resolved filters."""
    found = []
    for topic in subscriber_topics.topics_of(registry.session, subscriber):
        try:
            resolved = registry.resolve_text(topic.canonical)
        except BadFilter:  # a pack that the filter uses has been removed
            continue
        if not topic.is_muted:
            found.append((topic, resolved))
    return found
