"""Explain which of a subscriber's topics match a paper, and which words match."""

from __future__ import annotations

from collections.abc import Mapping

from digest.errors import BadFilter
from digest.papers.paper_record import NO_IDS
from digest.publishing.why.question import WhyQuestion
from digest.subscribers import subscriber_topics
from digest.topics import explanation, filter_parser


def describe_topics(question: WhyQuestion, resolved_then: Mapping[str, str] = NO_IDS) -> bool:
    """Add findings: whether and why each topic matches the paper; return whether any topic matches.

    `resolved_then` contains the resolved filter of each topic at the time of the decision, if known.
    """
    every_topic = subscriber_topics.topics_of(question.session, question.subscriber)
    question.lines.extend(f"{topic.name} is muted" for topic in every_topic if topic.is_muted)
    own_topics = [topic for topic in every_topic if not topic.is_muted]
    matched = not own_topics
    for topic in own_topics:
        resolved = resolved_then.get(topic.name, topic.resolved)
        if topic.resolved != topic.canonical:
            verb = "resolves" if resolved == topic.resolved else "resolved"
            question.lines.append(f"{topic.name} is {topic.canonical}, which {verb} to {resolved}")
        matched = describe_filter(question, topic.name, resolved) or matched
    return matched


def describe_filter(question: WhyQuestion, name: str, canonical: str) -> bool:
    """Add a finding: whether and why a topic's filter matches the paper; return whether it matches."""
    try:
        found = explanation.explain(filter_parser.parse(canonical), question.paper)
    except BadFilter as error:
        question.lines.append(f"{name}: the stored filter cannot be parsed. {error}")
        return False
    if found.matched:
        question.lines.append(f"{name} matches: {' · '.join(found.why)}")
    else:
        question.lines.append(f"{name} does not match: {'; '.join(found.failed)}")
    return found.matched
