"""Make topics from the papers that a visitor likes, or from a library."""

from __future__ import annotations

from collections.abc import Sequence

from digest.app_context import AppContext
from digest.db import Session
from digest.papers.catalog import queries
from digest.papers.paper_record import Paper
from digest.topics import example_topics
from digest.topics.example_topics import ExampleTopic, topic_like, topic_like_library
from digest.web.sign_up_form import MAX_NAME, OfferedTopic


def topic_of_liked(context: AppContext, session: Session, liked: Sequence[int]) -> OfferedTopic | None:
    """Return the topic whose examples are the papers with these ids, or None if pages may show none of them."""
    found = {paper.id: paper for paper in queries.papers(session, ids=sorted(liked))} if liked else {}
    shown = [found[number] for number in liked if number in found]
    examples = [paper for paper in shown if context.public_rules.public_copy(paper)]
    return offered(topic_like(examples)) if examples else None


def topic_of_library(session: Session, papers: Sequence[Paper]) -> OfferedTopic:
    """Return the topic whose examples are the newest papers of a library, with what the catalog knows of them."""
    examples = queries.as_known(session, example_topics.newest_of(papers))
    return offered(topic_like_library(examples, [*papers, *examples]))


def offered(topic: ExampleTopic) -> OfferedTopic:
    """Convert a topic by example to one that the form can offer."""
    return OfferedTopic(name=topic.name[:MAX_NAME], filter=topic.filter)
