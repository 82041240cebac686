"""Make topics from the papers that a visitor likes, or from a library."""

from __future__ import annotations

from collections.abc import Sequence

from digest import topics
from digest.app_context import AppContext
from digest.db import Session
from digest.papers import Paper, catalog
from digest.topics import ExampleTopic, example_topics
from digest.web.sign_up_form import MAX_NAME, OfferedTopic


def topic_of_liked(context: AppContext, session: Session, liked: Sequence[int]) -> OfferedTopic | None:
    """Return the topic whose examples are the papers with these ids, or None if pages may show none of them."""
    found = {paper.id: paper for paper in catalog.papers(session, ids=sorted(liked))} if liked else {}
    shown = [found[number] for number in liked if number in found]
    examples = [paper for paper in shown if context.public_rules.public_copy(paper)]
    return offered(topics.topic_like(examples)) if examples else None


def topic_of_library(session: Session, papers: Sequence[Paper]) -> OfferedTopic:
    """Return the topic whose examples are the newest papers of a library, with what the catalog knows of them."""
    examples = catalog.as_known(session, example_topics.newest_of(papers))
    return offered(topics.topic_like_library(examples, [*papers, *examples]))


def offered(topic: ExampleTopic) -> OfferedTopic:
    """Convert a topic by example to one that the form can offer."""
    return OfferedTopic(name=topic.name[:MAX_NAME], filter=topic.filter)
