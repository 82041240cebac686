"""Explain why a subscriber did or did not get a paper.

`digest why` stores no data of its own. The explanation comes from the stored decision, or from deciding again
with the same press (the stored papers) and code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import and_, select

from digest.db.tables.deliveries import Delivery, DeliveryState, FollowupSent, Shown
from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import AppearanceRow, ChangeRow, EarlierVersion, PaperRow
from digest.db.tables.subscribers import FilterRow
from digest.delivery import press_store, restore_point, shown
from digest.editions.compose import Digest
from digest.editions.schedule import Edition
from digest.errors import NotFound
from digest.papers.catalog import queries
from digest.papers.display_text import display
from digest.papers.paper_record import Announcement
from digest.publishing.candidate_papers import candidates
from digest.publishing.decide_digest import coverage_of
from digest.publishing.digest_preview import decide_for
from digest.publishing.paper_eligibility import LATE_WITHIN, LONGEST_LOOK, Coverage, is_news
from digest.publishing.publication import Publication
from digest.publishing.why.question import (
    WhyAnswer,
    WhyCause,
    WhyQuestion,
    describe_filter,
    describe_topics,
    mail_refused,
    minute_text,
)
from digest.subscribers import next_digest, subscriber_rows


def why(publication: Publication, email: str, reference: str) -> WhyAnswer:
    """Return why this subscriber did or did not get this paper.

    Raises NotFound for an unknown address. If no dump contained the paper, the answer says so.
    """
    session = publication.session
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
    question = WhyQuestion(publication=publication, subscriber=subscriber, paper=paper)
    return next(filter(None, candidate_answers(question, reference)))


def candidate_answers(question: WhyQuestion, reference: str) -> Iterator[WhyAnswer | None]:
    """Yield the answer of each possible explanation, or None, in the order in which they are tried."""
    describe_paper(question, reference)
    yield answer_if_shown(question)
    yield answer_if_earlier_version_shown(question)
    yield answer_if_not_news(question)
    yield answer_if_considered(question)
    refused = mail_refused(question.session, question.publication.site, question.subscriber)
    yield next((question.answer(WhyCause(cause), verdict) for cause, verdict in refused), None)
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


# ── shown ────────────────────────────────────────────────────────────────────────────────────────


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
    stored = section and section.filter_id and question.session.get(FilterRow, section.filter_id)
    if section and stored:
        describe_filter(question, section.topic, stored.canonical)
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


# ── considered by a published edition ────────────────────────────────────────────────────────────


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
        covered = Coverage(delivery.covers_from or delivery.dated_at, delivery.covers_paper_id)
        is_in_time = paper.first_seen_at <= delivery.dated_at and was_in_catalog(
            question, delivery, last_considered_id
        )
        if is_in_time and is_news(paper, covered):
            yield delivery
        last_considered_id = delivery.covers_paper_id


def was_in_catalog(question: WhyQuestion, delivery: Delivery, considered_paper_id: int | None) -> bool:
    """Return whether the paper was in the catalog when an edition was made.

    An edition's press contains the papers that existed then. If the press was deleted, the paper's id is
    compared with the last id that the edition considered, which is stored with the next edition.
    """
    if delivery.press is not None:
        try:
            press = press_store.load_press(question.session, delivery.press, question.publication.caches)
        except NotFound:
            pass
        else:
            return question.paper.id in press.rank_of_paper
    return considered_paper_id is not None and question.paper.id <= considered_paper_id


def answer_left_out(question: WhyQuestion, delivery: Delivery) -> WhyAnswer:
    """Return the answer about an edition that considered the paper but did not show it."""
    name = delivery.edition
    # Packs may have changed since the decision, which stores the resolved filters.
    sections = Digest.from_json(delivery.decision).sections
    stored = {one.topic: question.session.get(FilterRow, one.filter_id) for one in sections if one.filter_id}
    resolved_then = {topic: row.canonical for topic, row in stored.items() if row is not None}
    matches_now = describe_topics(question, resolved_then)
    if not matches_now or delivery.state == DeliveryState.EMPTY:
        matches = "matched it then" if matches_now else "matches it"
        return question.answer(
            WhyCause.UNMATCHED, f"{name} considered it, and no topic {matches}.", edition=name
        )
    rank = describe_positions(question, delivery)
    verdict = f"It matched, but {name} was full" + (f": it had rank {rank}." if rank else ".")
    return question.answer(WhyCause.OVER_CAP, verdict, edition=name, rank=rank)


def describe_positions(question: WhyQuestion, delivery: Delivery) -> int | None:
    """Add the paper's rank in each topic to the findings; return the best, or None if it is unknown."""
    try:
        press = press_store.load_press(question.session, delivery.press or "", question.publication.caches)
    except NotFound:
        question.lines.append("its rank is unknown: the press of that edition has been deleted")
        return None
    size = len(Digest.from_json(delivery.decision).papers)
    publication = replace(question.publication, fixed_press=press, now=delivery.dated_at)
    found = candidates(publication, question.subscriber.id, delivery).positions(question.paper.id)
    for topic, place in found.items():
        question.lines.append(f"{topic}: rank {place} among the new papers; the digest showed {size}")
    return min(found.values(), default=None)


# ── in the next edition ─────────────────────────────────────────────────────────────────────────


def answer_if_upcoming(question: WhyQuestion) -> WhyAnswer | None:
    """Return the answer if the next edition will consider the paper, else None."""
    subscriber, paper = question.subscriber, question.paper
    edition = next_digest.edition_status(question.session, subscriber, question.publication.now).next
    if not is_news(paper, coverage_of(subscriber, question.publication.now)):
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
    publication = replace(question.publication, also_due=question.subscriber.id)
    decision = decide_for(publication, question.subscriber.id, edition)
    found = candidates(publication, question.subscriber.id).positions(question.paper.id)
    for topic, place in found.items():
        question.lines.append(f"{topic}: rank {place} among the new papers so far")
    if question.paper.id in decision.digest.papers:
        question.lines.append("a digest made now would show it")
    return min(found.values(), default=None)


# ── the remaining cases ─────────────────────────────────────────────────────────────────────────


def answer_by_elimination(question: WhyQuestion) -> WhyAnswer:
    """Return the answer that the digest was never sent, or that the paper arrived too early or too late."""
    subscriber, paper = question.subscriber, question.paper
    if any(one.state in shown.UNACCEPTED_STATES for one in editions_considering(question)):
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
        Delivery.subscriber_id == question.subscriber.id,
        Delivery.covers_from.is_not(None),
        Delivery.dated_at >= first_seen_at,
    )
    later = question.session.scalar(editions.order_by(Delivery.id).limit(1))
    if later is None:
        return first_seen_at <= question.publication.now - LONGEST_LOOK
    return later.covers_from == later.dated_at - LONGEST_LOOK >= first_seen_at
