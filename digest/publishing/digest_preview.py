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
from digest.db.tables.subscribers import Subscriber
from digest.delivery import press_store, shown
from digest.editions import schedule
from digest.editions.compose import Digest
from digest.editions.schedule import Edition, Schedule
from digest.letters import headers, letter_rendering, mime, personalization
from digest.letters.dkim_signing import Signer, sign_message, signers_for_list
from digest.letters.letter_rendering import Personalization
from digest.letters.mime import RenderedLetter
from digest.letters.press.press_value import Press
from digest.publishing import nothing_today
from digest.publishing.decide_digest import decide_digest
from digest.publishing.publication import Publication, gather_inputs
from digest.publishing.reader_values import Decision
from digest.subscribers import filter_registry, next_digest, subscriber_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """The letter that one subscriber would get."""

    edition: Edition
    digest: Digest
    letter: RenderedLetter
    message: bytes
    json: dict[str, Any]
    is_published: bool = False  #: whether the digest has already been published


def preview(publication: Publication, email: str, signers: Sequence[Signer] = ()) -> Preview:
    """Return the subscriber's digest at this moment, for the open edition or else the next.

    If the next edition has no papers yet, return the digest of the open edition if it was published with
    papers. The message is signed as if it were sent. Raises NotFound for an unknown address. Changes nothing.
    """
    session, now = publication.session, publication.now
    subscriber = subscriber_rows.get(session, email)
    publication = replace(publication, also_due=subscriber.id)
    edition = next_digest.edition_status(session, subscriber, now).next
    decision = decide_for(publication, subscriber.id, edition)
    published = None if decision.digest.sections else published_open(session, subscriber, now)
    if published is not None:
        press = press_store.load_press(session, published.press or "", publication.caches)
        publication = replace(publication, fixed_press=press, now=published.dated_at)
        edition = edition_of_delivery(subscriber_rows.schedule_of(subscriber), published) or edition
        decision = decision._replace(edition=edition, digest=Digest.from_json(published.decision))
    found = preview_of_decision(publication, signers, subscriber, decision)
    return replace(found, is_published=published is not None)


def preview_of_decision(
    publication: Publication, signers: Sequence[Signer], subscriber: Subscriber, decision: Decision
) -> Preview:
    """Return the letter and the message made from a decision."""
    copy = personalization_of_decision(publication, subscriber, decision)
    if decision.digest.sections:
        letter = publication.letters.letter(decision.digest, copy)
        message = publication.letters.message(decision.digest, copy)
    else:
        letter, message = nothing_today_letter(publication, decision, copy)
    signers = signers_for_list(signers) if copy.is_group else signers
    return Preview(
        edition=decision.edition,
        digest=decision.digest,
        letter=letter,
        message=sign_message(message, signers, dated_at=copy.dated_at),
        json=decision_json(publication.press, decision, copy.filters),
    )


def nothing_today_letter(
    publication: Publication, decision: Decision, copy: Personalization
) -> tuple[RenderedLetter, bytes]:
    """Return the nothing-today letter for an edition without papers, and its message."""
    site, gathered = publication.site, gather_inputs(publication, [decision.reader])
    context = {
        "site": site,
        **nothing_today.checked_summary(gathered, decision, site=site, next_due_at=copy.next_due_at),
        "email": copy.recipient,
        "manage_url": copy.manage_url,
        "unsubscribe_url": copy.unsubscribe_url,
        "timezone": copy.timezone,
        "dated_at": copy.dated_at,
    }
    letter = letter_rendering.render_letter(publication.templates, "nothing_today", context)
    of_list = headers.list_headers(
        site, copy.unsubscribe_url, unsubscribe_address=copy.unsubscribe_address, campaign=copy.edition
    )
    return letter, mime.build_message(
        letter,
        site=site,
        recipient=copy.recipient,
        message_id=copy.message_id,
        dated_at=copy.dated_at,
        headers=(*headers.reply_to(copy.reply_address), *of_list),
    )


def decide_for(publication: Publication, subscriber_id: int, edition: Edition) -> Decision:
    """Return the decision of a run for one subscriber."""
    reader = publication.load_reader(subscriber_id)
    return decide_digest(gather_inputs(publication, [reader]), reader, edition)


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
    publication: Publication, subscriber: Subscriber, decision: Decision
) -> Personalization:
    """Return the personal values of this digest, as of its due time if the digest is in the future.

    If a group's digest has no papers, the letter sent in its place goes to the group's owner.
    """
    is_for_group = subscriber.is_group and bool(decision.digest.sections)
    chosen_by = [one.filter_id for one in decision.digest.sections if one.filter_id is not None]
    return personalization.personalize(
        publication.site,
        delivery_id=0,
        subscriber_id=subscriber.id,
        link_version=subscriber.link_version,
        email=subscriber.email if is_for_group else subscriber.contact_email,
        edition=decision.edition.name,
        dated_at=max(publication.now, decision.edition.due_at),
        schedule=subscriber_rows.schedule_of(subscriber),
        key_id=publication.site.signing_key_id,
        filters=filter_registry.canonical_filters(publication.session, chosen_by),
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
                "papers": [paper_json(made, made.rank_of_paper[paper]) for paper in section.papers],
            }
            for section in decision.digest.sections
        ],
        "updates": [
            {"id": one.paper, "title": one.title, "kind": one.kind, "detail": one.detail}
            for one in decision.digest.news
        ],
    }


def paper_json(made: Press, number: int) -> dict[str, Any]:
    """Return the data of one paper in `digest.json`."""
    paper = made.papers[number]
    return {
        "id": paper.id,
        "title": paper.title,
        "ids": dict(paper.ids),
        "score": round(made.scores[number], 4),
        "trending": number + 1,
        "reasons": list(made.reasons[number]),
    }
