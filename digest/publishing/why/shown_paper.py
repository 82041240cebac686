"""Explain which digest showed a paper and under which topic, and how the paper has changed since."""

from __future__ import annotations

from sqlalchemy import and_, select

from digest.db.tables.deliveries import Delivery, FollowupSent, Shown
from digest.db.tables.papers import ChangeRow, EarlierVersion, PaperRow
from digest.db.tables.subscribers import FilterRow
from digest.editions.compose import Digest, Section
from digest.papers.display_text import display
from digest.publishing.why.question import WhyAnswer, WhyCause, WhyQuestion, minute_text
from digest.publishing.why.topic_matches import describe_filter


def answer_if_shown(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if a digest contained the paper, else None."""
    found = question.session.execute(
        select(Shown.shown_on, Delivery)
        .outerjoin(Delivery, Delivery.id == Shown.delivery_id)
        .where(Shown.subscriber_id == question.subscriber.id, Shown.paper_id == question.paper.id)
    ).first()
    if found is None:
        return None
    delivery = found.Delivery
    if delivery is None or delivery.edition is None:
        return question.answer(WhyCause.SHOWN, f"Shown on {found.shown_on} in another letter.")
    section = next(
        (one for one in Digest.from_json(delivery.decision).sections if question.paper.id in one.papers), None
    )
    if section is not None:
        describe_section(question, section)
    question.lines.append(
        f"the digest is {delivery.state}" + (f": {delivery.reason}" if delivery.reason else "")
    )
    describe_changes(question)
    topic = f", under {section.topic}" if section else ""
    return question.answer(
        WhyCause.SHOWN,
        f"Shown on {found.shown_on} in {delivery.edition}{topic}.",
        edition=delivery.edition,
        shown_on=found.shown_on.isoformat(),
        state=delivery.state,
    )


def answer_if_earlier_version_shown(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if a digest contained an earlier version of the paper under another title, else None."""
    found = question.session.execute(
        select(Shown.shown_on, Delivery.edition, PaperRow.id, PaperRow.title)
        .join(EarlierVersion, EarlierVersion.earlier_id == Shown.paper_id)
        .join(PaperRow, PaperRow.id == Shown.paper_id)
        .outerjoin(Delivery, Delivery.id == Shown.delivery_id)
        .where(Shown.subscriber_id == question.subscriber.id, EarlierVersion.paper_id == question.paper.id)
    ).first()
    if found is None:
        return None
    question.lines.append(
        f"its abstract is nearly that of paper {found.id}, and they have an author in common"
    )
    verdict = f"Left out: {found.edition or 'another letter'} showed it as “{display(found.title)}”."
    return question.answer(WhyCause.SHOWN_EARLIER, verdict, shown_on=found.shown_on.isoformat())


def describe_section(question: WhyQuestion, section: Section) -> None:
    """Add a finding: why the filter of the section, as it was resolved for the digest, matches the paper."""
    stored = None if section.filter_id is None else question.session.get(FilterRow, section.filter_id)
    if stored is not None:
        describe_filter(question, section.topic, stored.canonical)


def describe_changes(question: WhyQuestion) -> None:
    """Add findings: the changes of a shown paper, and when each update was sent to the reader."""
    sent = and_(
        FollowupSent.paper_id == ChangeRow.paper_id,
        FollowupSent.kind == ChangeRow.kind,
        FollowupSent.subscriber_id == question.subscriber.id,
    )
    found = (
        select(ChangeRow, FollowupSent.sent_on, Delivery.edition, Delivery.letter)
        .outerjoin(FollowupSent, sent)
        .outerjoin(Delivery, Delivery.id == FollowupSent.delivery_id)
        .where(ChangeRow.paper_id == question.paper.id)
        .order_by(ChangeRow.seen_at)
    )
    for change, sent_on, edition, letter in question.session.execute(found):
        known = f"{change.kind} since, according to a dump of {minute_text(change.seen_at)}"
        if sent_on is None:
            question.lines.append(f"{known}; the update has not been sent")
        else:
            question.lines.append(f"{known}; update sent on {sent_on} in {edition or f'a {letter} letter'}")
