"""Explain why a subscriber did or did not get a paper.

`digest why` stores no data of its own. The explanation comes from the stored decision, or from deciding again
with the same press (the stored papers) and code.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.db.tables.deliveries import Delivery
from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import AppearanceRow, PaperRow
from digest.db.tables.subscribers import SubscriberState
from digest.editions import restore_point
from digest.errors import NotFound
from digest.letters.templates import Templates
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.papers.paper_record import Announcement
from digest.process.caches import Caches
from digest.publishing.paper_eligibility import LATE_WITHIN, LONGEST_LOOK
from digest.publishing.why.next_edition import answer_if_upcoming
from digest.publishing.why.past_edition import answer_if_considered, unsent_editions
from digest.publishing.why.question import WhyAnswer, WhyCause, WhyQuestion, minute_text
from digest.publishing.why.shown_paper import answer_if_earlier_version_shown, answer_if_shown
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows


def why(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    caches: Caches,
    email: str,
    reference: str,
    now: datetime,
) -> WhyAnswer:
    """Return why this subscriber did or did not get this paper.

    Raises NotFound for an unknown address. If no dump contained the paper, the answer says so.
    """
    subscriber = subscriber_rows.get(session, email)
    try:
        paper = queries.find(session, reference)
    except NotFound as error:
        verdict = f"No dump contained the paper. {error}"
        if (restored_at := restore_point.restore_point(session)) is not None:
            verdict = (
                f"The database does not contain the paper. {error} It was restored from a backup on"
                f" {minute_text(restored_at)}: dumps that were loaded after the backup was made are missing."
            )
        return WhyAnswer(
            verdict=verdict, json={"cause": WhyCause.UNKNOWN, "verdict": verdict, "email": subscriber.email}
        )
    question = WhyQuestion(
        session=session,
        site=site,
        templates=templates,
        caches=caches,
        subscriber=subscriber,
        paper=paper,
        now=now,
    )
    return next(filter(None, candidate_answers(question, reference)))


def candidate_answers(question: WhyQuestion, reference: str) -> Iterator[WhyAnswer | None]:
    """Yield the answer of each possible explanation, or None, in the order in which they are tried."""
    describe_paper(question, reference)
    yield answer_if_shown(question)
    yield answer_if_earlier_version_shown(question)
    yield answer_if_not_news(question)
    yield answer_if_considered(question)
    yield answer_if_not_mailed(question)
    yield answer_if_upcoming(question)
    yield answer_by_elimination(question)


def describe_paper(question: WhyQuestion, reference: str) -> None:
    """Add findings: the paper's title, whether it was merged, and whether its list was loaded late."""
    paper = question.paper
    question.lines.append(
        f"{display(paper.title)} (paper {paper.id}), first seen {minute_text(paper.first_seen_at)}"
    )
    if reference.strip().isdigit() and int(reference) != paper.id:
        question.lines.append(f"paper {reference.strip()} was merged into this one")
    if (late := late_dump(question)) is not None:
        when = minute_text(paper.first_seen_at)
        question.lines.append(f"its list of {late.date} was loaded on {when} (dump {late.id})")


def late_dump(question: WhyQuestion) -> DumpRow | None:
    """Return the dump that first contained the paper, if that dump was loaded a day or more after its date."""
    return question.session.scalar(
        select(DumpRow)
        .join(AppearanceRow, AppearanceRow.dump_id == DumpRow.id)
        .where(
            AppearanceRow.paper_id == question.paper.id,
            DumpRow.seen_at == question.paper.first_seen_at,
            DumpRow.is_history.is_(False),
        )
        .limit(1)
    )


# ── never new ───────────────────────────────────────────────────────────────────────────────────


def answer_if_not_news(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if the paper can never be in a digest, else None."""
    if question.paper.announcement == Announcement.WITHDRAWN:
        return question.answer(WhyCause.WITHDRAWN, "The authors withdrew this paper.")
    is_history = select(PaperRow.is_history).where(PaperRow.id == question.paper.id)
    if question.session.scalar(is_history):
        is_replaced = question.paper.announcement == Announcement.REPLACED
        how = "as a new version of an older paper" if is_replaced else "as history"
        return question.answer(WhyCause.HISTORY, f"It was loaded {how}, so no digest shows it.")
    return None


# ── no mail to this address ─────────────────────────────────────────────────────────────────────


def answer_if_not_mailed(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if nothing is sent to the subscriber's address, else None."""
    subscriber = question.subscriber
    if suppressions.is_suppressed(question.session, question.site, subscriber.email):
        return question.answer(
            WhyCause.SUPPRESSED, "The address is suppressed. See: digest suppressions list"
        )
    match subscriber.state:
        case SubscriberState.PENDING:
            return question.answer(WhyCause.PENDING, "The subscription is not confirmed yet.")
        case SubscriberState.UNSUBSCRIBED:
            return question.answer(WhyCause.UNSUBSCRIBED, "They have unsubscribed.")
        case SubscriberState.PAUSED:
            until = f"until {subscriber.paused_until}" if subscriber.paused_until else "until they resume"
            return question.answer(WhyCause.PAUSED, f"Their digests are paused {until}.")
    return None


# ── the remaining cases ─────────────────────────────────────────────────────────────────────────


def answer_by_elimination(question: WhyQuestion) -> WhyAnswer:
    """Return the answer that the digest was never sent, or that the paper arrived too early or too late."""
    subscriber, paper = question.subscriber, question.paper
    if unsent_editions(question):
        return question.answer(WhyCause.UNSENT, "The digest that considered it was never sent.")
    joined_at = subscriber.confirmed_at or subscriber.created_at
    if paper.first_seen_at <= joined_at:
        verdict = f"It was first seen before they subscribed, on {minute_text(joined_at)}."
        return question.answer(WhyCause.BEFORE, verdict)
    if is_before_longest_look(question):
        verdict = f"A digest covers {(LONGEST_LOOK + LATE_WITHIN).days} days at most, and the paper is older."
        return question.answer(WhyCause.TOO_OLD, verdict)
    return question.answer(
        WhyCause.LATE, "The editions that could have shown it were published before it arrived."
    )


def is_before_longest_look(question: WhyQuestion) -> bool:
    """Return whether the next edition, or the first one after the paper arrived, looks back less far than the paper."""
    first_seen_at = question.paper.first_seen_at
    editions = select(Delivery).where(
        Delivery.subscriber_id == question.subscriber.id, Delivery.covers_to >= first_seen_at
    )
    later = question.session.scalar(editions.order_by(Delivery.id).limit(1))
    if later is None or later.covers_to is None:
        return first_seen_at <= question.now - LONGEST_LOOK
    return later.covers_from == later.covers_to - LONGEST_LOOK >= first_seen_at
