"""Why a subscriber did or did not get a paper: the answer to every support question.

Nothing is remembered for this: the decision is looked up, or made again on the very press it was made
on, by the code that made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from digest import bounces, catalog, presses, publishing, showings, subscriptions, topics
from digest.composition import Digest, Section
from digest.editions import Edition
from digest.errors import BadFilter, NotFound
from digest.links import Site
from digest.model import (
    Appearance,
    ChangeRow,
    Delivery,
    DeliveryState,
    DumpRow,
    FilterRow,
    PaperRow,
    Shown,
    Subscriber,
    SubscriberState,
    Told,
)
from digest.papers import NOTHING, Announcement, Paper, display
from digest.rendering import Templates


class Cause(StrEnum):
    """What decided."""

    SHOWN = "shown"  #: it was put into a digest
    UNKNOWN = "unknown"  #: no dump had it
    HISTORY = "history"  #: back-filled: in the catalog, never news
    WITHDRAWN = "withdrawn"  #: its authors took it back
    UNMATCHED = "unmatched"  #: no topic asked for it
    TOO_OLD = "too old"  #: published longer ago than the subscriber wants
    OVER_CAP = "over the cap"  #: others stood before it
    TOO_FEW = "too few"  #: too few papers for a digest: they wait
    NOT_DUE = "not due yet"  #: the edition it is news for is still to come
    BEFORE = "before"  #: seen before the subscriber's first digest began
    LATE = "late"  #: arrived when its day had been published
    UNSENT = "unsent"  #: its digest was made and never sent
    SUPPRESSED = "suppressed"
    PENDING = "pending"
    PAUSED = "paused"
    UNSUBSCRIBED = "unsubscribed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One sentence, what speaks for it, and both for scripts."""

    verdict: str
    lines: tuple[str, ...] = ()
    json: dict[str, Any]


@dataclass(kw_only=True)
class Question:
    """One subscriber, one paper, and what was found out so far."""

    session: Session
    site: Site
    templates: Templates
    subscriber: Subscriber
    paper: Paper
    now: datetime
    lines: list[str] = field(default_factory=list)

    def answer(self, cause: Cause, verdict: str, **more: Any) -> Answer:
        """Return the answer, with all that was found out on the way."""
        paper = {"id": self.paper.id, "title": self.paper.title}
        told = {"cause": cause, "verdict": verdict, "email": self.subscriber.email, "paper": paper}
        return Answer(verdict=verdict, lines=tuple(self.lines), json={**told, **more, "lines": self.lines})


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


# ── shown ───────────────────────────────────────────────────────────────────────────────────────


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


# ── considered, and left out ────────────────────────────────────────────────────────────────────


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


def stood_for(question: Question, delivery: Delivery) -> dict[str, str]:
    """Return what the topics of a digest stood for when it was decided: packs have versions."""
    sections = Digest.from_json(delivery.decision).sections
    stored = {one.topic: question.session.get(FilterRow, one.filter_id) for one in sections if one.filter_id}
    return {topic: row.canonical for topic, row in stored.items() if row is not None}


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


def tell_of_section(question: Question, section: Section) -> None:
    """Say why a paper was shown under a topic: by what the filter, packs and all, stood for at that time."""
    stored = None if section.filter_id is None else question.session.get(FilterRow, section.filter_id)
    if stored is not None:
        tell_of_filter(question, section.topic, stored.canonical)


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


# ── still to come, or past ──────────────────────────────────────────────────────────────────────


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


def unsent(question: Question) -> list[Delivery]:
    """Return the editions that looked at the paper and were never sent."""
    return [one for one in looked_at(question) if one.state in showings.UNACCEPTED]


def minute(moment: datetime) -> str:
    """Return a moment as the lines say it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
