"""Make topics from the papers that a visitor likes, or from a library."""

from __future__ import annotations

from collections.abc import Sequence

from digest import topics
from digest.app_context import AppContext
from digest.db import Session
from digest.papers import Paper, catalog
from digest.topics import SuggestedTopic
from digest.web import starter_topics
from digest.web.sign_up_form import MAX_NAME, OfferedTopic

MAX_CACHED = 256  #: maximum number of cached topics made from liked papers


def topic_of_liked(context: AppContext, session: Session, liked: Sequence[int]) -> OfferedTopic | None:
    """Return the topic made from the papers with these ids, cached until the catalog or the day changes."""
    if not liked:
        return None
    key = (tuple(sorted(liked)), catalog.state(session), context.clock().date())

    def make() -> OfferedTopic | None:
        found = catalog.papers(session, ids=sorted(liked))
        return topic_of(context, session, [one for one in found if context.public_rules.public_copy(one)])

    return context.caches.get_or_make("topics of liked papers", key, make, bound=MAX_CACHED)


def topics_of_library(context: AppContext, session: Session, papers: Sequence[Paper]) -> list[OfferedTopic]:
    """Return topics made from a library, those with the most papers first."""
    index = starter_topics.recent_papers(context, session).index
    return [offered(one.topic) for one in topics.suggest_from_library(papers, index).topics]


def topic_of(context: AppContext, session: Session, examples: Sequence[Paper]) -> OfferedTopic | None:
    """Return a topic that finds papers like the examples; None if there are no examples."""
    if not examples:
        return None
    index = starter_topics.recent_papers(context, session).index
    return offered(topics.suggest_topic(examples, index))


def offered(topic: SuggestedTopic) -> OfferedTopic:
    """Convert a suggested topic to one that the form can offer."""
    return OfferedTopic(name=topic.name[:MAX_NAME], filter=topic.filter.canonical)
