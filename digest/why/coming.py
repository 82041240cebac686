"""The next edition will look at the paper: what would it decide now?"""

from __future__ import annotations

from digest import publishing
from digest.editions import Edition
from digest.why.matching import tell_of_topics
from digest.why.questions import Answer, Cause, Question, minute


def if_to_come(question: Question) -> Answer | None:
    """Answer if the next edition will look at the paper: with what it would decide now."""
    subscriber, paper = question.subscriber, question.paper
    edition = publishing.edition_for(question.session, subscriber, question.now)
    cut = publishing.cut_of(subscriber, question.now)
    if not publishing.is_news(paper, cut):
        return None
    due = f"{edition.name}, due {minute(edition.due_at)}"
    if not tell_of_topics(question):
        verdict = f"{due}, will look at it, but no topic matches it."
        return question.answer(Cause.UNMATCHED, verdict, edition=edition.name)
    rank = tell_of_places_now(question, edition)
    verdict = f"It is news for {due}" + (f": at {rank} so far." if rank else ".")
    return question.answer(Cause.NOT_DUE, verdict, edition=edition.name, rank=rank)


def tell_of_places_now(question: Question, edition: Edition) -> int | None:
    """Say where the paper would stand if the next edition were made now, and return its best place."""
    made, decision = publishing.decided(
        question.session, question.site, question.templates, question.subscriber, edition, question.now
    )
    found = publishing.places_now(
        question.session, made, question.subscriber.id, question.paper.id, question.now
    )
    for topic, place in found.items():
        question.lines.append(f"{topic}: at {place} of what is new so far")
    if question.paper.id in decision.digest.papers:
        question.lines.append("made now, the digest would show it")
    return min(found.values(), default=None)
