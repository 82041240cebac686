"""Explain whether the next edition would show a paper if that edition were made now."""

from __future__ import annotations

from digest.editions.schedule import Edition
from digest.publishing import candidate_papers, decide_digest, digest_preview, paper_eligibility
from digest.publishing.why.question import WhyAnswer, WhyCause, WhyQuestion, minute_text
from digest.publishing.why.topic_matches import describe_topics
from digest.subscribers import next_digest


def answer_if_upcoming(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if the next edition will consider the paper, else None."""
    subscriber, paper = question.subscriber, question.paper
    edition = next_digest.edition_status(question.session, subscriber, question.now).next
    considered_until = decide_digest.considered_until_of(subscriber, question.now)
    if not paper_eligibility.is_news(paper, considered_until):
        return None
    due = f"{edition.name}, due {minute_text(edition.due_at)}"
    if not describe_topics(question):
        verdict = f"{due}, will consider it, but no topic matches it."
        return question.answer(WhyCause.UNMATCHED, verdict, edition=edition.name)
    rank = describe_positions_now(question, edition)
    verdict = f"It is new for {due}" + (f": rank {rank} so far." if rank else ".")
    return question.answer(WhyCause.NOT_DUE, verdict, edition=edition.name, rank=rank)


def describe_positions_now(question: WhyQuestion, edition: Edition) -> int | None:
    """Add to the findings the ranks that the paper would have in an edition made now; return the best."""
    press, decision = digest_preview.decide_for(
        question.session,
        question.site,
        question.templates,
        question.caches,
        question.subscriber,
        edition,
        question.now,
    )
    found = candidate_papers.positions_now(
        question.session,
        press,
        question.caches,
        question.subscriber.id,
        question.paper.id,
        question.now,
    )
    for topic, place in found.items():
        question.lines.append(f"{topic}: rank {place} among the new papers so far")
    if question.paper.id in decision.digest.papers:
        question.lines.append("a digest made now would show it")
    return min(found.values(), default=None)
