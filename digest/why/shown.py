"""The paper was shown: in which digest, under which topic, and what became of it since."""

from __future__ import annotations

from sqlalchemy import and_, select

from digest.composition import Digest, Section
from digest.model import ChangeRow, Delivery, FilterRow, Shown, Told
from digest.why.matching import tell_of_filter
from digest.why.questions import Answer, Cause, Question, minute


def if_shown(question: Question) -> Answer | None:
    """Answer if the paper was put into a digest."""
    found = question.session.execute(
        select(Shown.shown_on, Delivery)
        .outerjoin(Delivery, Delivery.id == Shown.delivery_id)
        .where(Shown.subscriber_id == question.subscriber.id, Shown.paper_id == question.paper.id)
    ).first()
    if found is None:
        return None
    delivery = found.Delivery
    if delivery is None or delivery.edition is None:
        return question.answer(Cause.SHOWN, f"Shown on {found.shown_on} in another letter.")
    section = next(
        (one for one in Digest.from_json(delivery.decision).sections if question.paper.id in one.papers), None
    )
    if section is not None:
        tell_of_section(question, section)
    question.lines.append(
        f"the digest is {delivery.state}" + (f": {delivery.reason}" if delivery.reason else "")
    )
    tell_of_changes(question)
    topic = f", under {section.topic}" if section else ""
    return question.answer(
        Cause.SHOWN,
        f"Shown on {found.shown_on} in {delivery.edition}{topic}.",
        edition=delivery.edition,
        shown_on=found.shown_on.isoformat(),
        state=delivery.state,
    )


def tell_of_section(question: Question, section: Section) -> None:
    """Say why a paper was shown under a topic: by what the filter, packs and all, stood for at that time."""
    stored = None if section.filter_id is None else question.session.get(FilterRow, section.filter_id)
    if stored is not None:
        tell_of_filter(question, section.topic, stored.canonical)


def tell_of_changes(question: Question) -> None:
    """Say what became of a paper that was shown, and when the reader was told."""
    told = and_(
        Told.paper_id == ChangeRow.paper_id,
        Told.kind == ChangeRow.kind,
        Told.subscriber_id == question.subscriber.id,
    )
    found = (
        select(ChangeRow, Told.told_on, Delivery.edition, Delivery.letter)
        .outerjoin(Told, told)
        .outerjoin(Delivery, Delivery.id == Told.delivery_id)
        .where(ChangeRow.paper_id == question.paper.id)
        .order_by(ChangeRow.seen_at)
    )
    for change, told_on, edition, letter in question.session.execute(found):
        known = f"{change.kind} since, as a dump of {minute(change.seen_at)} said"
        if told_on is None:
            question.lines.append(f"{known}; they have not been told")
        else:
            question.lines.append(f"{known}; told on {told_on} in {edition or f'a {letter} letter'}")
