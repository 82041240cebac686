"""Why a subscriber did or did not get a paper: the answer to every support question.

Nothing is remembered for this: the decision is looked up, or made again on the very press it was made
on, by the code that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import bounces, catalog, subscriptions
from digest.errors import NotFound
from digest.links import Site
from digest.model import Appearance, DumpRow, PaperRow, SubscriberState
from digest.papers import Announcement, Paper, display
from digest.rendering import Templates
from digest.why.coming import if_to_come
from digest.why.considered import if_considered, unsent
from digest.why.questions import Answer, Cause, Question, minute
from digest.why.shown import if_shown

__all__ = ["Answer", "Cause", "why"]


def why(
    session: Session, *, site: Site, templates: Templates, email: str, reference: str, now: datetime
) -> Answer:
    """Return why this subscriber did or did not get this paper.

    Raises NotFound for an address nobody subscribed with. A paper no dump had is an answer.
    """
    subscriber = subscriptions.get(session, email)
    try:
        paper = catalog.find(session, reference)
    except NotFound as error:
        verdict = f"No dump had it. {error}"
        return Answer(
            verdict=verdict, json={"cause": Cause.UNKNOWN, "verdict": verdict, "email": subscriber.email}
        )
    question = Question(
        session=session, site=site, templates=templates, subscriber=subscriber, paper=paper, now=now
    )
    return next(filter(None, answers(question, reference)))


def answers(question: Question, reference: str) -> Iterator[Answer | None]:
    """Yield what may have decided, from what is certain to what is left."""
    tell_of_paper(question, reference)
    yield if_shown(question)
    yield if_no_news(question)
    yield if_considered(question)
    yield if_not_written_to(question)
    yield if_to_come(question)
    yield too_early_or_too_late(question)


def tell_of_paper(question: Question, reference: str) -> None:
    """Say which paper this is about, where that is not what was typed."""
    paper = question.paper
    question.lines.append(
        f"{display(paper.title)} (paper {paper.id}), first seen {minute(paper.first_seen_at)}"
    )
    if reference.strip().isdigit() and int(reference) != paper.id:
        question.lines.append(f"paper {reference.strip()} turned out to be this one")
    if (late := late_dump(question)) is not None:
        when = minute(paper.first_seen_at)
        question.lines.append(f"its list is of {late.date} and was loaded on {when} (dump {late.id})")


def late_dump(question: Question) -> DumpRow | None:
    """Return the dump that brought the paper, if it was read days after its own."""
    return question.session.scalar(
        select(DumpRow)
        .join(Appearance, Appearance.dump_id == DumpRow.id)
        .where(
            Appearance.paper_id == question.paper.id,
            DumpRow.seen_at == question.paper.first_seen_at,
            DumpRow.is_history.is_(False),
        )
        .limit(1)
    )


# ── never news ──────────────────────────────────────────────────────────────────────────────────


def if_no_news(question: Question) -> Answer | None:
    """Answer if the paper can be in nobody's digest."""
    if question.paper.announcement == Announcement.WITHDRAWN:
        return question.answer(Cause.WITHDRAWN, "Its authors withdrew it.")
    is_history = select(PaperRow.is_history).where(PaperRow.id == question.paper.id)
    if question.session.scalar(is_history):
        how = "as a new version of an older paper" if is_replacement(question.paper) else "as history"
        return question.answer(Cause.HISTORY, f"It came {how}: in the catalog, never news.")
    return None


def is_replacement(paper: Paper) -> bool:
    """Return whether dumps knew the paper only as a later version."""
    return paper.announcement == Announcement.REPLACED


# ── not written to ──────────────────────────────────────────────────────────────────────────────


def if_not_written_to(question: Question) -> Answer | None:
    """Answer if nothing is sent to this address at all."""
    subscriber = question.subscriber
    if bounces.is_suppressed(question.session, question.site, subscriber.email):
        return question.answer(Cause.SUPPRESSED, "The address is suppressed. See: digest suppressions list")
    match subscriber.state:
        case SubscriberState.PENDING:
            return question.answer(Cause.PENDING, "The subscription is not confirmed yet.")
        case SubscriberState.UNSUBSCRIBED:
            return question.answer(Cause.UNSUBSCRIBED, "They have unsubscribed.")
        case SubscriberState.PAUSED:
            until = f"until {subscriber.paused_until}" if subscriber.paused_until else "until they say so"
            return question.answer(Cause.PAUSED, f"Their digests are paused {until}.")
    return None


# ── what is left ────────────────────────────────────────────────────────────────────────────────


def too_early_or_too_late(question: Question) -> Answer:
    """Answer what is left: it was there before the subscriber, or came after its day was published."""
    subscriber, paper = question.subscriber, question.paper
    if unsent(question):
        return question.answer(Cause.UNSENT, "The digest that looked at it was never sent.")
    came = subscriber.confirmed_at or subscriber.created_at
    if paper.first_seen_at <= came:
        verdict = f"It was seen before they came, on {minute(came)}."
        return question.answer(Cause.BEFORE, verdict)
    return question.answer(
        Cause.LATE, "It arrived after the editions that begin with its day had been published."
    )
