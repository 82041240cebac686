"""Preview one subscriber's digest with the code of a real run, without storing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, DeliveryState, PressRow
from digest.db.tables.subscribers import FilterRow, Subscriber
from digest.editions import schedule, shown
from digest.editions.compose import Digest
from digest.editions.schedule import Edition, Schedule
from digest.letters import headers, letter_rendering, mime, personalization, press_store
from digest.letters.dkim_signing import Signer, sign_message, signers_for_list
from digest.letters.letter_rendering import Personalization
from digest.letters.mime import RenderedLetter
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.press.load_templates import letters_of
from digest.letters.press.press_value import Press
from digest.letters.templates import Templates
from digest.process.caches import Caches
from digest.publishing import nothing_today
from digest.publishing.decide_digest import decide_digest
from digest.publishing.due_readers import count_due, gather_inputs, load_reader, match_index_of
from digest.publishing.reader_values import Decision
from digest.site.site_profile import Site
from digest.subscribers import next_digest, subscriber_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """The letter that one subscriber would get."""

    edition: Edition
    digest: Digest
    letter: RenderedLetter
    message: bytes
    json: dict[str, Any]
    is_published: bool = False  #: whether the digest has already been published


def preview(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    caches: Caches,
    signers: Sequence[Signer] = (),
    email: str,
    now: datetime,
) -> Preview:
    """Return the subscriber's digest at `now`, for the open edition or else the next.

    If the next edition has no papers yet, return the digest of the open edition if it was published with
    papers. The message is signed as if it were sent. Raises NotFound for an unknown address. Changes nothing.
    """
    subscriber = subscriber_rows.get(session, email)
    edition = next_digest.edition_status(session, subscriber, now).next
    press, decision = decide_for(session, site, templates, caches, subscriber, edition, now)
    published = None if decision.digest.sections else published_open(session, subscriber, now)
    if published is not None:
        press = press_store.load_press(session, published.press or "", caches)
        digest = Digest.from_json(published.decision)
        edition = edition_of_delivery(subscriber_rows.schedule_of(subscriber), published) or edition
        decision = decision._replace(edition=edition, digest=digest)
        now = published.dated_at
    found = preview_of_decision(
        session,
        letters_of(press, site, templates, caches),
        templates,
        caches,
        signers,
        subscriber,
        decision,
        now,
    )
    return replace(found, is_published=published is not None)


def preview_of_decision(  # noqa: PLR0917  (the parts of one decision)
    session: Session,
    made: DigestLetters,
    templates: Templates,
    caches: Caches,
    signers: Sequence[Signer],
    subscriber: Subscriber,
    decision: Decision,
    now: datetime,
) -> Preview:
    """Return the letter and the message made from a decision."""
    site, press, schedule = made.site, made.press, subscriber_rows.schedule_of(subscriber)
    copy = personalization_of_decision(session, site, subscriber, schedule, decision, now)
    if decision.digest.sections:
        letter, message = made.letter(decision.digest, copy), made.message(decision.digest, copy)
    else:
        match_index = match_index_of(session, press, caches)
        gathered = gather_inputs(session, match_index, [decision.reader], now)
        summary = nothing_today.checked_summary(
            match_index, gathered, decision, site=site, next_due_at=copy.next_due_at
        )
        letter = nothing_today_letter(site, templates, summary, copy)
        message = nothing_today_message(site, letter, copy)
    return Preview(
        edition=decision.edition,
        digest=decision.digest,
        letter=letter,
        message=sign_message(
            message, signers_for_list(signers) if copy.is_group else signers, dated_at=copy.dated_at
        ),
        json=decision_json(press, decision, copy.filters),
    )


def nothing_today_letter(
    site: Site, templates: Templates, summary: Mapping[str, Any], copy: Personalization
) -> RenderedLetter:
    """Return the nothing-today letter for an edition without papers."""
    context = {
        "site": site,
        **summary,
        "email": copy.recipient,
        "manage_url": copy.manage_url,
        "unsubscribe_url": copy.unsubscribe_url,
        "timezone": copy.timezone,
        "dated_at": copy.dated_at,
    }
    return letter_rendering.render_letter(templates, "nothing_today", context)


def nothing_today_message(site: Site, letter: RenderedLetter, copy: Personalization) -> bytes:
    """Return the nothing-today letter as a complete mail message."""
    return mime.build_message(
        letter,
        site=site,
        recipient=copy.recipient,
        message_id=copy.message_id,
        dated_at=copy.dated_at,
        headers=(
            *headers.reply_to(copy.reply_address),
            *headers.list_headers(
                site,
                copy.unsubscribe_url,
                unsubscribe_address=copy.unsubscribe_address,
                campaign=copy.edition,
            ),
        ),
    )


def decide_for(  # noqa: PLR0917  (the parts of one question)
    session: Session,
    site: Site,
    templates: Templates,
    caches: Caches,
    subscriber: Subscriber,
    edition: Edition,
    now: datetime,
) -> tuple[Press, Decision]:
    """Return the press that a run would use, and the decision for one subscriber."""
    since = press_store.press_start(now, count_due(session, now, and_for=subscriber.id)[1])
    press, _ = press_store.build_press(
        session, site=site, templates=templates, caches=caches, now=now, since=since
    )
    reader = load_reader(session, subscriber.id)
    match_index = match_index_of(session, press, caches)
    gathered = gather_inputs(session, match_index, [reader], now)
    return press, decide_digest(match_index, gathered, reader, edition, now)


def published_open(session: Session, subscriber: Subscriber, now: datetime) -> Delivery | None:
    """Return the latest published digest, if it is still open, has papers and its press is still stored."""
    conditions = (
        Delivery.subscriber_id == subscriber.id,
        Delivery.edition.is_not(None),
        Delivery.dated_at <= now,
        Delivery.expires_at > now,
        Delivery.press.in_(select(PressRow.name)),
        Delivery.state.not_in([*shown.UNACCEPTED_STATES, DeliveryState.EMPTY]),
    )
    return session.scalars(select(Delivery).where(*conditions).order_by(Delivery.id.desc()).limit(1)).first()


def edition_of_delivery(chosen: Schedule, delivery: Delivery) -> Edition | None:
    """Return the edition of a published digest, or None if the schedule has changed since."""
    first = schedule.local_day(chosen, delivery.dated_at) - timedelta(days=31)
    begun = takewhile(lambda one: one.due_at <= delivery.dated_at, schedule.editions_from(chosen, first))
    return next((one for one in begun if one.name == delivery.edition), None)


def personalization_of_decision(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    schedule: Schedule,
    decision: Decision,
    now: datetime,
) -> Personalization:
    """Return the personal values of this digest, as of its due time if the digest is in the future.

    If a group's digest has no papers, the letter sent in its place goes to the group's owner.
    """
    is_for_group = subscriber.is_group and bool(decision.digest.sections)
    chosen_by = {section.filter_id for section in decision.digest.sections} - {None}
    found = session.execute(select(FilterRow.id, FilterRow.canonical).where(FilterRow.id.in_(chosen_by)))
    return personalization.personalize(
        site,
        delivery_id=0,
        subscriber_id=subscriber.id,
        link_version=subscriber.link_version,
        email=subscriber.email if is_for_group else subscriber.contact_email,
        edition=decision.edition.name,
        dated_at=max(now, decision.edition.due_at),
        schedule=schedule,
        key_id=site.signing_key_id,
        filters={row[0]: row[1] for row in found},
        is_group=is_for_group,
    )


def decision_json(made: Press, decision: Decision, filters: Mapping[int, str]) -> dict[str, Any]:
    """Return the data that is written to `digest.json`."""
    return {
        "email": decision.reader.email,
        "edition": decision.edition.name,
        "due_at": decision.edition.due_at.isoformat(),
        "checked": decision.digest.checked,
        "sections": [
            {
                "topic": section.topic,
                "filter": filters.get(section.filter_id) if section.filter_id is not None else None,
                "more": section.more,
                "papers": [paper_json(made, number) for number in section.papers],
            }
            for section in decision.digest.sections
        ],
        "updates": [
            {"id": one.paper, "title": one.title, "kind": one.kind, "detail": one.detail}
            for one in decision.digest.news
        ],
    }


def paper_json(made: Press, paper_id: int) -> dict[str, Any]:
    """Return the data of one paper in `digest.json`."""
    number = made.rank_of_paper[paper_id]
    paper = made.papers[number]
    return {
        "id": paper.id,
        "title": paper.title,
        "ids": dict(paper.ids),
        "score": round(made.scores[number], 4),
        "trending": number + 1,
        "reasons": list(made.reasons[number]),
    }
