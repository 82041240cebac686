"""Double opt-in: an address is asked for, and its owner says yes.

Anybody can type anybody's address, so asking changes nothing but a pending row, and the answer at
the door is the same for every address. What was asked for waits with the confirmation and is
applied when it is confirmed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from digest import addresses, bounces, db, editions, outbox, showings
from digest.editions import Schedule
from digest.errors import BadField, BadFilter
from digest.links import Site, unseal
from digest.model import Confirmation, Consent, Subscriber, SubscriberState
from digest.rendering import words
from digest.rendering.cards import Card
from digest.subscriptions import inviting, people
from digest.subscriptions.filters import Books

log = logging.getLogger(__name__)

LIFETIME = timedelta(hours=48)
REMINDED_AFTER = timedelta(hours=24)

#: At most so many confirmations per address in so long; then silence, or our form would be a weapon.
CAPS = ((1, timedelta(hours=24)), (3, timedelta(days=30)))

NO_CARDS: Mapping[int, Card] = MappingProxyType({})


class Answer(StrEnum):
    """What asking led to. The web never tells: the page is the same for all of them."""

    ASKED = "asked"  #: a confirmation is on its way
    KNOWN = "known"  #: they get digests already; a letter with the way to their settings is on its way
    CAPPED = "capped"  #: asked often enough lately: nothing is sent
    SUPPRESSED = "suppressed"  #: must not be written to: nothing is sent


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What became of a wish to subscribe."""

    answer: Answer
    subscriber_id: int | None = None
    confirmation_id: int | None = None


# ── asking ──────────────────────────────────────────────────────────────────────────────────────


def ask(
    session: Session,
    site: Site,
    email: str,
    *,
    topics: Mapping[str, str] | None = None,
    schedule: Schedule | None = None,
    may_sign_up: frozenset[str] | None = None,
    now: datetime,
) -> Asked:
    """Ask the owner of an address whether they want digests: one pending row, one confirmation letter.

    Raises BadField where the address cannot be one, or is of a domain that may not sign up.
    """
    address = addresses.checked(email)
    check_policy(address.email, may_sign_up)
    wishes = wishes_json(session, topics or {}, schedule)
    if bounces.is_suppressed(session, site, address.email):
        return Asked(answer=Answer.SUPPRESSED)
    subscriber = pending(session, address, now)
    if subscriber.state in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        return remind(session, site, subscriber, now)
    if is_capped(session, subscriber.id, now):
        return Asked(answer=Answer.CAPPED, subscriber_id=subscriber.id)
    return put_confirmation(session, site, subscriber, wishes, now)


def check_policy(email: str, may_sign_up: Collection[str] | None) -> None:
    """Raise BadField where this site does not take the address (None: it takes everybody's)."""
    domain = email.rpartition("@")[2]
    if may_sign_up is None or domain in may_sign_up:
        return
    if not may_sign_up:
        raise BadField("email", "This site is closed to new subscribers. Ask the people who run it.")
    raise BadField("email", f"This site is for addresses at {', '.join(sorted(may_sign_up))}.")


def wishes_json(session: Session, topics: Mapping[str, str], schedule: Schedule | None) -> str:
    """Return what was asked for, checked, as the confirmation keeps it."""
    people.checked_topics(topics, Books(session))
    wishes: dict[str, Any] = {}
    if topics:
        wishes["topics"] = dict(topics)
    if schedule is not None:
        wishes["cadence"] = editions.cadence_spelling(schedule)
        wishes["at"] = f"{schedule.at:%H:%M}"
        wishes["timezone"] = schedule.timezone
    return json.dumps(wishes, separators=(",", ":"), ensure_ascii=False)


def pending(session: Session, address: addresses.Address, now: datetime) -> Subscriber:
    """Return the row of that address, locked; a pending one is made where there is none."""
    row = {
        "email": address.email, "email_key": address.key, "state": SubscriberState.PENDING, "created_at": now,
    }  # fmt: skip
    session.execute(
        db.upsert(session, Subscriber).values(row).on_conflict_do_nothing(index_elements=["email_key"])
    )
    wanted = select(Subscriber).where(Subscriber.email_key == address.key).with_for_update()
    return session.scalars(wanted.execution_options(populate_existing=True)).one()


def asked_since(session: Session, moment: datetime) -> int:
    """Return how many addresses were asked since then; those that an operator invited do not count."""
    asked = select(func.count()).where(Confirmation.made_at > moment, Confirmation.wishes != inviting.INVITED)
    return session.scalar(asked) or 0


def is_capped(session: Session, subscriber_id: int, now: datetime) -> bool:
    """Return whether the address was asked often enough lately."""
    theirs = select(func.count()).where(
        Confirmation.subscriber_id == subscriber_id, Confirmation.wishes != inviting.INVITED
    )
    return any(
        (session.scalar(theirs.where(Confirmation.made_at > now - window)) or 0) >= most
        for most, window in CAPS
    )


def put_confirmation(
    session: Session, site: Site, subscriber: Subscriber, wishes: str, now: datetime
) -> Asked:
    """Write one confirmation and its letter. The letter's decision names it; the token is never stored."""
    confirmation = Confirmation(
        subscriber_id=subscriber.id, made_at=now, expires_at=now + LIFETIME, wishes=wishes
    )
    session.add(confirmation)
    session.flush()
    inviting.withdraw(session, site, subscriber.email_key, now=now)
    outbox.put_letter(
        session,
        letter="confirm",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={"confirmation_id": confirmation.id},
        dedupe_key=f"confirm-{confirmation.id}",
        site=site,
        now=now,
        expires_at=confirmation.expires_at,
    )
    return Asked(answer=Answer.ASKED, subscriber_id=subscriber.id, confirmation_id=confirmation.id)


def remind(session: Session, site: Site, subscriber: Subscriber, now: datetime) -> Asked:
    """Write, at most once a day, to somebody who gets digests already: only their mailbox may tell."""
    outbox.put_letter(
        session,
        letter="settings",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={},
        dedupe_key=f"settings-{subscriber.id}-{now.date()}",
        site=site,
        now=now,
    )
    return Asked(answer=Answer.KNOWN, subscriber_id=subscriber.id)


def send_link(session: Session, site: Site, subscriber: Subscriber, now: datetime) -> None:
    """Mail somebody the way to their settings, at most once an hour: whoever asks, only they get it."""
    outbox.put_letter(
        session,
        letter="manage",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={},
        dedupe_key=f"manage-{subscriber.id}-{now:%Y-%m-%d-%H}",
        site=site,
        now=now,
    )


def remind_unanswered(session: Session, site: Site, now: datetime) -> int:
    """Write once more to those who have not answered for a day; return to how many.

    One reminder is all that an address ever gets, however often somebody asks for it; who was invited
    has asked for nothing, and gets none.
    """
    unanswered = (
        select(Confirmation.id, Confirmation.expires_at, Subscriber.id, Subscriber.email)
        .join(Subscriber, Subscriber.id == Confirmation.subscriber_id)
        .where(
            Confirmation.used_at.is_(None),
            Confirmation.wishes != inviting.INVITED,
            Confirmation.made_at <= now - REMINDED_AFTER,
            Confirmation.expires_at > now,
            Subscriber.state == SubscriberState.PENDING,
        )
    )
    written = [
        outbox.put_letter(
            session,
            letter="reminder",
            subscriber_id=subscriber,
            email=email,
            decision={"confirmation_id": confirmation},
            dedupe_key=f"reminder-{subscriber}",
            site=site,
            now=now,
            expires_at=expires_at,
        )
        for confirmation, expires_at, subscriber, email in session.execute(unanswered)
    ]
    return sum(number is not None for number in written)


# ── confirming ──────────────────────────────────────────────────────────────────────────────────


def confirmation_in(session: Session, site: Site, token: str, now: datetime) -> Confirmation | None:
    """Return the confirmation a link names, if we made it and it can still be used or was used."""
    number = unseal(site, "confirm", token)
    if number is None:
        return None
    confirmation = session.get(Confirmation, int(number))
    if confirmation is None or (confirmation.used_at is None and confirmation.expires_at <= now):
        return None
    return confirmation


def confirm(
    session: Session,
    site: Site,
    token: str,
    now: datetime,
    *,
    how: str = "confirmed by link",
    network: str | None = None,
    today: Mapping[int, Card] = NO_CARDS,
) -> Subscriber | None:
    """Make the owner of a confirmation's address a subscriber, and welcome them with today's papers.

    Returns None for a link that is not ours, has expired or belongs to a suppressed address. A
    second press changes nothing: whoever used it gets the subscriber back as they are now.
    """
    confirmation = confirmation_in(session, site, token, now)
    if confirmation is None:
        return None
    subscriber = session.get_one(Subscriber, confirmation.subscriber_id, with_for_update=True)
    if not use(session, confirmation, now):
        return subscriber
    if bounces.is_suppressed(session, site, subscriber.email):
        return None
    if subscriber.state in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        return subscriber
    apply_wishes(session, subscriber, confirmation.wishes)
    activate(session, subscriber, now)
    session.add(Consent(subscriber_id=subscriber.id, given_at=now, how=how, address=network))
    welcome(session, site, subscriber, confirmation.id, today, now)
    return subscriber


def use(session: Session, confirmation: Confirmation, now: datetime) -> bool:
    """Use a confirmation up; False if somebody was faster."""
    used = session.execute(
        update(Confirmation)
        .where(Confirmation.id == confirmation.id, Confirmation.used_at.is_(None))
        .values(used_at=now)
        .returning(Confirmation.id)
    )
    return used.first() is not None


def apply_wishes(session: Session, subscriber: Subscriber, wishes: str) -> None:
    """Give the subscriber what the confirmed request asked for."""
    wanted = json.loads(wishes)
    if "cadence" in wanted:
        schedule = editions.schedule_in(
            cadence=wanted["cadence"], at=wanted["at"], timezone=wanted["timezone"]
        )
        for column, value in people.columns(schedule).items():
            setattr(subscriber, column, value)
    if "topics" in wanted:
        people.put_topics(session, subscriber.id, still_readable(session, wanted["topics"]))


def still_readable(session: Session, topics: Mapping[str, str]) -> dict[str, str]:
    """Return the topics asked for whose packs have still what they name: a yes must not fail on the others."""
    books, kept = Books(session), {}
    for name, text in topics.items():
        try:
            books.canonical(text)
        except BadFilter as error:
            log.warning("a topic asked for can be read no more and is left out: %s", error)
        else:
            kept[name] = text
    return kept


def activate(session: Session, subscriber: Subscriber, now: datetime) -> None:
    """Begin, or begin anew: the first digest is the next one on the schedule, with that day's papers."""
    subscriber.state = SubscriberState.ACTIVE
    subscriber.confirmed_at = now
    subscriber.left_at = None
    subscriber.cut_at = subscriber.cut_paper_id = None
    subscriber.next_due_at = editions.edition_after(people.schedule_of(subscriber), now).due_at
    session.flush()


def welcome(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    confirmation_id: int,
    today: Mapping[int, Card],
    now: datetime,
) -> None:
    """Write the welcome letter: when the first digest comes, and papers until then, which count as shown."""
    due = subscriber.next_due_at or now
    had = {paper for _, paper in showings.of(session, [subscriber.id], since_id=min(today, default=0))}
    new = {paper: card for paper, card in today.items() if paper not in had}
    number = outbox.put_letter(
        session,
        letter="welcome",
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision={
            "next_due": words.moment_in_words(due, subscriber.timezone, seen_from=now),
            "cards": [card.to_json() for card in new.values()],
        },
        dedupe_key=f"welcome-{confirmation_id}",
        site=site,
        now=now,
    )
    if number is not None:
        showings.put(session, (subscriber.id, number, list(new)), shown_on=now.date())
