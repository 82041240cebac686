"""Propose changes to a subscriber's topics for "less like this" and "more like this".

No topic changes automatically. A proposal names a clause and the papers that the clause would have dropped or
added, and a topic changes only when its owner agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from digest import topics
from digest.caches import Caches
from digest.db.tables import Subscriber
from digest.errors import BadFilter
from digest.letters import figures_in_words
from digest.papers import Paper, catalog, display
from digest.subscribers import saved_papers, subscriber_topics
from digest.subscribers.subscriber_topics import SubscriberTopic
from digest.topics import ClauseProposal, Filter, SuggestedTopic, filter_registry, recent_papers
from digest.topics.recent_papers import RecentPapers

_ = figures_in_words.TRANSLATIONS.gettext
ngettext = figures_in_words.TRANSLATIONS.ngettext

MAX_TITLES = 3  #: maximum number of titles in the sentence about a proposal's effect
MAX_TITLE_LENGTH = 80
MAX_TOPICS = 3  #: maximum number of topics to which changes are proposed
MIN_EXAMPLES, MAX_EXAMPLES = 3, 20  #: minimum and maximum number of saved papers from which a topic is made


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicProposal:
    """A proposed change to one topic, and the effect that it would have had on past days."""

    topic: str
    clause: str  #: the clause to add, with its operator: `ANDNOT medical`, `OR "flow matching"`
    before: str  #: the filter as shown to its owner
    after: str
    papers: int  #: number of papers that the topic matched on the examined days
    changed: int  #: number of papers that the clause drops or adds
    titles: tuple[str, ...]  #: the titles of the latest papers that the clause drops or adds
    days: int  #: number of days that were examined

    @property
    def drops(self) -> bool:
        """Return whether the change removes papers from the topic."""
        return self.clause.startswith("ANDNOT ")

    @property
    def label(self) -> str:
        """Return the change in words: `Leave out “knee”`, `Add papers by Ada Ito to Vision`."""
        field, colon, value = self.clause.partition(" ")[2].partition(":")
        words = (value if colon else field).strip('"*').replace("*", "")
        named = {"cat": _("papers in %s"), "au": _("papers by %s")}.get(field, "“%s”") % words
        if self.drops:
            return _("Leave out %s") % named
        return _("Add %(papers)s to %(topic)s") % {"papers": named, "topic": self.topic}

    @property
    def sentence(self) -> str:
        """Return the effect, such as `Drops 4 of 31 papers of the last 31 days: A; B; C; and 1 more.`"""
        count = self.effect
        if not self.titles:
            return f"{count}."
        others = self.changed - len(self.titles)
        named = "; ".join([*self.titles, *([_("and %d more") % others] if others > 0 else [])])
        return f"{count}: {named}."

    @property
    def effect(self) -> str:
        """Return the effect as a phrase, such as `Drops 4 of 31 papers of the last 31 days`."""
        days = ngettext("of the last day", "of the last %(days)d days", self.days) % {"days": self.days}
        if self.drops:
            one, many = "Drops %(changed)d of %(papers)d paper", "Drops %(changed)d of %(papers)d papers"
            count = ngettext(one, many, self.papers) % {"changed": self.changed, "papers": self.papers}
            return f"{count} {days}"
        one, many = "Adds %(changed)d paper to the %(papers)d", "Adds %(changed)d papers to the %(papers)d"
        count = ngettext(one, many, self.changed) % {"changed": self.changed, "papers": self.papers}
        return f"{count} {days}"


def propose_less(
    session: Session, caches: Caches, subscriber: Subscriber, paper_id: int, *, now: datetime
) -> tuple[TopicProposal, ...]:
    """Return the changes that would exclude a paper from the topics that match it.

    Raises NotFound for an unknown paper.
    """
    paper = catalog.find(session, str(paper_id))
    recent = recent_papers.recent_papers(session, caches, now=now)
    return tuple(
        topic_proposal(topic, one, recent)
        for topic, resolved in read_topics(session, subscriber)
        if topics.explain(resolved, paper).matched
        for one in topics.propose_exclusions(topic.text, resolved, paper, recent.index, recent.days)
    )


def propose_more(
    session: Session, caches: Caches, subscriber: Subscriber, paper_id: int, *, now: datetime
) -> tuple[TopicProposal, ...]:
    """Return changes that would add papers like this one to a topic; raise NotFound for an unknown paper.

    The changed topics are those that match the paper, or all topics if none does.
    """
    paper = catalog.find(session, str(paper_id))
    recent = recent_papers.recent_papers(session, caches, now=now)
    return tuple(
        topic_proposal(topic, one, recent)
        for topic, resolved in matching_or_all(read_topics(session, subscriber), paper)[:MAX_TOPICS]
        for one in topics.propose_additions(topic.text, resolved, paper, recent.index, recent.days)
    )


def propose_saved_topic(
    session: Session, caches: Caches, subscriber: Subscriber, *, now: datetime
) -> SuggestedTopic | None:
    """Return a topic made from the saved papers that no topic matches; None if fewer than three are left.

    Only papers saved since the subscriber last accepted or declined a proposed topic count.
    """
    since = subscriber.saved_topic_decided_at
    saved = saved_papers.list_saved(session, subscriber.id)
    fresh = [paper for paper, at in saved if since is None or at > since][:MAX_EXAMPLES]
    resolved = [filter_ for _, filter_ in read_topics(session, subscriber)]
    unmatched = [paper for paper in fresh if not any(topics.explain(one, paper).matched for one in resolved)]
    if len(unmatched) < MIN_EXAMPLES:
        return None
    recent = recent_papers.recent_papers(session, caches, now=now)
    return topics.suggest_topic(unmatched, recent.index)


def matching_or_all(
    found: Sequence[tuple[SubscriberTopic, Filter]], paper: Paper
) -> Sequence[tuple[SubscriberTopic, Filter]]:
    """Return the topics that match a paper, or all topics if none does."""
    return [one for one in found if topics.explain(one[1], paper).matched] or found


def read_topics(session: Session, subscriber: Subscriber) -> list[tuple[SubscriberTopic, Filter]]:
    """Return the subscriber's unmuted topics with their resolved filters."""
    registry, found = filter_registry.FilterRegistry(session), []
    for topic in subscriber_topics.topics_of(session, subscriber):
        try:
            resolved = registry.resolve_text(topic.canonical)
        except BadFilter:  # a pack that the filter uses has been removed
            continue
        if not topic.is_muted:
            found.append((topic, resolved))
    return found


def topic_proposal(topic: SubscriberTopic, proposed: ClauseProposal, recent: RecentPapers) -> TopicProposal:
    """Return a proposal with the titles of the papers that it changes."""
    titles = [display(recent.index.papers[number].title) for number in proposed.changed[:MAX_TITLES]]
    return TopicProposal(
        topic=topic.name,
        clause=proposed.clause,
        before=topic.text,
        after=proposed.filter,
        papers=proposed.papers,
        changed=len(proposed.changed),
        titles=tuple(figures_in_words.cut_at_word(title, MAX_TITLE_LENGTH) for title in titles),
        days=recent.day_count,
    )
