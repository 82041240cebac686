"""An edition that was published looked at the paper, and left it out."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from digest import presses, publishing, showings
from digest.composition import Digest
from digest.errors import NotFound
from digest.model import Delivery, DeliveryState, FilterRow
from digest.why.matching import tell_of_topics
from digest.why.questions import Answer, Cause, Question


def if_considered(question: Question) -> Answer | None:
    """Answer if an edition that was published looked at the paper and left it out."""
    for delivery in looked_at(question):
        if delivery.state in showings.UNACCEPTED:
            reason = f": {delivery.reason}" if delivery.reason else ""
            question.lines.append(f"{delivery.edition} was not sent ({delivery.state}{reason})")
            continue
        return left_out(question, delivery)
    return None


def looked_at(question: Question) -> Iterator[Delivery]:
    """Yield the editions for which the paper was news, the latest first."""
    paper, known_then = question.paper, question.subscriber.cut_paper_id
    theirs = select(Delivery).where(
        Delivery.subscriber_id == question.subscriber.id,
        Delivery.edition.is_not(None),
        Delivery.covers_from.is_not(None),
    )
    for delivery in question.session.scalars(theirs.order_by(Delivery.id.desc())):
        began = delivery.covers_from or delivery.dated_at
        is_in_time = paper.first_seen_at <= delivery.dated_at and was_known(question, delivery, known_then)
        if is_in_time and publishing.is_news(paper, (began, delivery.covers_paper_id)):
            yield delivery
        known_then = delivery.covers_paper_id


def was_known(question: Question, delivery: Delivery, known_then: int | None) -> bool:
    """Return whether the paper was in the catalog when an edition was made: on its press, if that is left.

    Else its number tells: an edition begins where the one before it had got to.
    """
    if delivery.press is not None:
        try:
            return question.paper.id in presses.load(question.session, delivery.press).number
        except NotFound:
            pass
    return known_then is not None and question.paper.id <= known_then


def left_out(question: Question, delivery: Delivery) -> Answer:
    """Answer why an edition that looked at the paper did not show it."""
    name = delivery.edition
    if not tell_of_topics(question, stood_for(question, delivery)):
        return question.answer(
            Cause.UNMATCHED, f"{name} looked at it, and no topic matches it.", edition=name
        )
    days = question.subscriber.max_age_days
    if days is not None and not publishing.is_young(question.paper, days, delivery.dated_at.date()):
        verdict = f"It was published more than {days} days before {name}."
        return question.answer(Cause.TOO_OLD, verdict, edition=name)
    if delivery.state == DeliveryState.EMPTY:
        verdict = f"{name} had too few papers to be sent; they wait for the next one."
        return question.answer(Cause.TOO_FEW, verdict, edition=name)
    rank = tell_of_places(question, delivery)
    verdict = f"It matched, and {name} was full" + (f": it stood at {rank}." if rank else ".")
    return question.answer(Cause.OVER_CAP, verdict, edition=name, rank=rank)


def stood_for(question: Question, delivery: Delivery) -> dict[str, str]:
    """Return what the topics of a digest stood for when it was decided: packs have versions."""
    sections = Digest.from_json(delivery.decision).sections
    stored = {one.topic: question.session.get(FilterRow, one.filter_id) for one in sections if one.filter_id}
    return {topic: row.canonical for topic, row in stored.items() if row is not None}


def tell_of_places(question: Question, delivery: Delivery) -> int | None:
    """Say where the paper stood in an edition, and return its best place; None if that press is gone."""
    try:
        made = presses.load(question.session, delivery.press or "")
    except NotFound:
        question.lines.append("where it stood is forgotten: the press of that edition is gone")
        return None
    room = len(Digest.from_json(delivery.decision).papers)
    found = publishing.places(question.session, made, question.subscriber.id, question.paper.id, delivery)
    for topic, place in found.items():
        question.lines.append(f"{topic}: at {place} of what was new; the digest held {room} papers")
    return min(found.values(), default=None)


def unsent(question: Question) -> list[Delivery]:
    """Return the editions that looked at the paper and were never sent."""
    return [one for one in looked_at(question) if one.state in showings.UNACCEPTED]
