"""Explain why a published edition considered a paper but left it out."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import FilterRow
from digest.editions import shown
from digest.editions.compose import Digest
from digest.errors import NotFound
from digest.letters import press_store
from digest.publishing import candidate_papers, paper_eligibility
from digest.publishing.why.question import WhyAnswer, WhyCause, WhyQuestion
from digest.publishing.why.topic_matches import describe_topics


def answer_if_considered(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if a published edition considered the paper but left it out, else None."""
    for delivery in editions_considering(question):
        if delivery.state in shown.UNACCEPTED_STATES:
            reason = f": {delivery.reason}" if delivery.reason else ""
            question.lines.append(f"{delivery.edition} was not sent ({delivery.state}{reason})")
            continue
        return answer_left_out(question, delivery)
    return None


def editions_considering(question: WhyQuestion) -> Iterator[Delivery]:
    """Yield the editions for which the paper was new, the latest first."""
    paper, last_considered_id = question.paper, question.subscriber.considered_paper_id
    editions = select(Delivery).where(
        Delivery.subscriber_id == question.subscriber.id,
        Delivery.edition.is_not(None),
        Delivery.covers_from.is_not(None),
    )
    for delivery in question.session.scalars(editions.order_by(Delivery.id.desc())):
        began = delivery.covers_from or delivery.dated_at
        is_in_time = paper.first_seen_at <= delivery.dated_at and was_in_catalog(
            question, delivery, last_considered_id
        )
        if is_in_time and paper_eligibility.is_news(paper, (began, delivery.covers_paper_id)):
            yield delivery
        last_considered_id = delivery.covers_paper_id


def was_in_catalog(question: WhyQuestion, delivery: Delivery, considered_paper_id: int | None) -> bool:
    """Return whether the paper was in the catalog when an edition was made.

    An edition's press contains the papers that existed then. If the press was deleted, the paper's id is
    compared with the last id that the edition considered, which is stored with the next edition.
    """
    if delivery.press is not None:
        try:
            press = press_store.load_press(question.session, delivery.press, question.caches)
        except NotFound:
            pass
        else:
            return question.paper.id in press.rank_of_paper
    return considered_paper_id is not None and question.paper.id <= considered_paper_id


def answer_left_out(question: WhyQuestion, delivery: Delivery) -> WhyAnswer:
    """Return the answer about an edition that considered the paper but did not show it."""
    name = delivery.edition
    matches_now = describe_topics(question, resolved_topics_then(question, delivery))
    if not matches_now or delivery.state == DeliveryState.EMPTY:
        matches = "matched it then" if matches_now else "matches it"
        return question.answer(
            WhyCause.UNMATCHED, f"{name} considered it, and no topic {matches}.", edition=name
        )
    rank = describe_positions(question, delivery)
    verdict = f"It matched, but {name} was full" + (f": it had rank {rank}." if rank else ".")
    return question.answer(WhyCause.OVER_CAP, verdict, edition=name, rank=rank)


def resolved_topics_then(question: WhyQuestion, delivery: Delivery) -> dict[str, str]:
    """Return {topic: resolved filter} as of the decision, because packs may have changed since then."""
    sections = Digest.from_json(delivery.decision).sections
    stored = {one.topic: question.session.get(FilterRow, one.filter_id) for one in sections if one.filter_id}
    return {topic: row.canonical for topic, row in stored.items() if row is not None}


def describe_positions(question: WhyQuestion, delivery: Delivery) -> int | None:
    """Add the paper's rank in each topic to the findings; return the best, or None if it is unknown."""
    try:
        made = press_store.load_press(question.session, delivery.press or "", question.caches)
    except NotFound:
        question.lines.append("its rank is unknown: the press of that edition has been deleted")
        return None
    size = len(Digest.from_json(delivery.decision).papers)
    found = candidate_papers.positions(
        question.session, made, question.caches, question.subscriber.id, question.paper.id, delivery
    )
    for topic, place in found.items():
        question.lines.append(f"{topic}: rank {place} among the new papers; the digest showed {size}")
    return min(found.values(), default=None)


def unsent_editions(question: WhyQuestion) -> list[Delivery]:
    """Return the editions that considered the paper but were never sent."""
    return [one for one in editions_considering(question) if one.state in shown.UNACCEPTED_STATES]
