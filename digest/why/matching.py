"""Which of a subscriber's topics match a paper, and by which words."""

from __future__ import annotations

from collections.abc import Mapping

from digest import subscriptions, topics
from digest.errors import BadFilter
from digest.papers import NOTHING
from digest.why.questions import Question


def tell_of_topics(question: Question, then: Mapping[str, str] = NOTHING) -> bool:
    """Say for each topic whether it matches the paper and why; return whether one does.

    `then` says what topics stood for at the time, where that is known.
    """
    asked = subscriptions.topics_of(question.session, question.subscriber)
    matched = not asked or question.subscriber.wants_trending
    for topic in asked:
        meant = then.get(topic.name, topic.stands_for)
        if topic.stands_for != topic.canonical:
            stands = "stands" if meant == topic.stands_for else "stood"
            question.lines.append(f"{topic.name} is {topic.canonical}, which {stands} for {meant}")
        matched = tell_of_filter(question, topic.name, meant) or matched
    return matched


def tell_of_filter(question: Question, name: str, canonical: str) -> bool:
    """Say whether a topic's filter matches the paper, and why."""
    try:
        found = topics.explain(topics.parse(canonical), question.paper)
    except BadFilter as error:
        question.lines.append(f"{name}: the stored filter cannot be read. {error}")
        return False
    if found.matched:
        question.lines.append(f"{name} matches: {' · '.join(found.why)}")
    else:
        question.lines.append(f"{name} does not match: {'; '.join(found.failed)}")
    return found.matched
