"""Send confirmation letters, and activate subscribers who confirm (double opt-in).

Anybody can enter any address. A request therefore only creates a pending row, and the page shows the same
text for every address. The requested settings are stored with the confirmation and are applied when the
subscriber confirms.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import bounce_score, opt_outs, suppressions
from digest.bounces.opt_outs import OptOutKind
from digest.bounces.suppressions import OWNER_CAN_LIFT
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import Confirmation, Consent, Subscriber, SubscriberState
from digest.delivery import outbox
from digest.delivery.limits import daily_counts
from digest.delivery.outbox import planned_letters
from digest.editions import shown
from digest.errors import BadField
from digest.letters import figures_in_words
from digest.letters.headers import one_line
from digest.mail import addresses
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    invitations,
    next_digest,
    preferences,
    reader_settings,
    sign_up_limits,
    subscriber_rows,
    subscriber_topics,
)
from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings, Remark
from digest.subscribers.sign_up_counts import counts
from digest.topics import filter_registry
from digest.topics.starter_filters import STARTER_TOPICS

if TYPE_CHECKING:
    from digest.letters.cards import Card

log = logging.getLogger(__name__)

#: States of subscribers who have confirmed and not unsubscribed since.
HAS_TOPICS = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})
CONFIRMATION_LIFETIME = timedelta(hours=48)
REMIND_AFTER = timedelta(hours=24)
#: A press of the button from another network this soon after sending is attributed to a mail scanner.
SCANNER_SECONDS = timedelta(seconds=60)

#: Minimum time between two confirmations sent to the same suppressed address.
LIFT_OFFER_INTERVAL = timedelta(days=30)
MAX_LINKS_A_DAY = 2  #: maximum number of letters with the settings link to one subscriber a day


@dataclass(frozen=True, kw_only=True, slots=True)
class WelcomePapers:
    """The papers of a welcome letter, best first."""

    cards: Mapping[int, Card] = field(default_factory=dict)  #: the cards, keyed by paper id
    is_on_topics: bool = False  #: whether the papers match the reader's topics
    is_from_today: bool = False

    @property
    def sentence(self) -> str:
        """Return the sentence in the welcome letter that announces the papers."""
        if not self.cards:
            return ""
        return figures_in_words.welcome_papers_sentence(
            len(self.cards), is_on_topics=self.is_on_topics, is_from_today=self.is_from_today
        )


ChoosePapers: TypeAlias = Callable[[Session, Subscriber], WelcomePapers]


class SignUpOutcome(StrEnum):
    """The outcome of a request to subscribe. The web page shows the same text for every outcome."""

    ASKED = "asked"  #: a confirmation is queued
    KNOWN = "known"  #: the address is already subscribed; a letter with the settings link is queued
    CAPPED = "capped"  #: the address has been sent as many confirmations as allowed; nothing is sent
    SUPPRESSED = "suppressed"  #: the address is suppressed; nothing is sent


@dataclass(frozen=True, kw_only=True, slots=True)
class SignUpResult:
    """The outcome of a request to subscribe, with the ids of the subscriber and confirmation, if any."""

    outcome: SignUpOutcome
    subscriber_id: int | None = None
    confirmation_id: int | None = None


# ── requests ────────────────────────────────────────────────────────────────────────────────────


def request_subscription(
    session: Session,
    site: Site,
    email: str,
    *,
    requested: ReaderSettings = NOTHING_GIVEN,
    may_sign_up: frozenset[str] | None = None,
    owner: str | None = None,
    now: datetime,
) -> SignUpResult:
    """Create a pending subscriber and queue the confirmation letter.

    If the address is a group's, the letter goes to its `owner`. Raises BadField if the address or the owner's
    is invalid, or if its domain may not sign up, and BadField or BadFilter if a requested setting is invalid.
    """
    address = addresses.parse_address(email)
    check_policy(address.email, may_sign_up)
    preferences.check(session, requested)
    if owner is not None:
        subscriber_rows.set_owner(lock_or_create_pending(session, address, now), owner)
    return queue_sign_up_letter(session, site, address, requested.to_json(), now=now)


def queue_sign_up_letter(
    session: Session,
    site: Site,
    address: addresses.Address,
    requested: str,
    *,
    network: str = Confirmation.BY_OPERATOR,
    evidence: str = "",
    may_lift: bool = False,
    now: datetime,
) -> SignUpResult:
    """Queue a confirmation or settings letter for an address if it may get one.

    With `may_lift`, an address suppressed by bounces or a complaint also gets a confirmation, at most every
    30 days; confirming lifts the suppression. `requested` is the JSON of the requested settings.
    """
    if site.is_own_address(address.email):
        return SignUpResult(outcome=SignUpOutcome.SUPPRESSED)
    suppression = suppressions.find_suppression(session, site, address.email)
    if suppression and not (may_lift and suppression.reason in OWNER_CAN_LIFT):
        return SignUpResult(outcome=SignUpOutcome.SUPPRESSED)
    subscriber = lock_or_create_pending(session, address, now)
    if not suppression and subscriber.state in HAS_TOPICS:
        return send_settings_letter(session, site, subscriber, now)
    if (
        is_capped(session, subscriber.id, now)
        or (suppression and was_lift_offered(session, subscriber.id, now))
        or (network != Confirmation.BY_OPERATOR and is_mailbox_capped(session, site, address.email, now))
    ):
        return SignUpResult(outcome=SignUpOutcome.CAPPED, subscriber_id=subscriber.id)
    confirmation = Confirmation(
        subscriber_id=subscriber.id,
        made_at=now,
        expires_at=now + CONFIRMATION_LIFETIME,
        email=subscriber.owner_email or address.email,
        requested_settings=requested,
        network=network,
        evidence=evidence,
        lifts_suppression=suppression is not None,
    )
    return queue_confirmation(session, site, subscriber, confirmation, now=now)


def check_policy(email: str, may_sign_up: Collection[str] | None) -> None:
    """Raise BadField if this address may not sign up; if `may_sign_up` is None, every address may."""
    domain = email.rpartition("@")[2]
    if may_sign_up is None or domain in may_sign_up:
        return
    if not may_sign_up:
        raise BadField("email", "This site is closed to new subscribers. Ask its operators.")
    raise BadField("email", f"This site is for addresses at {', '.join(sorted(may_sign_up))}.")


def lock_or_create_pending(session: Session, address: addresses.Address, now: datetime) -> Subscriber:
    """Lock and return the row of this address, after creating a pending subscriber if there is none."""
    row = {
        "email": address.email, "email_key": address.folded, "state": SubscriberState.PENDING, "created_at": now,
    }  # fmt: skip
    session.execute(
        db.upsert(session, Subscriber).values(row).on_conflict_do_nothing(index_elements=["email_key"])
    )
    query = select(Subscriber).where(Subscriber.email_key == address.folded).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one()


def is_capped(session: Session, subscriber_id: int, now: datetime) -> bool:
    """Return whether this subscriber has reached the limit on confirmations in any of the periods."""
    sent = select(func.count()).where(
        Confirmation.subscriber_id == subscriber_id,
        Confirmation.requested_settings != invitations.INVITED_MARK,
    )
    return any(
        (session.scalar(sent.where(Confirmation.made_at > now - window)) or 0) >= most
        for most, window in sign_up_limits.PER_ADDRESS
    )


def is_mailbox_capped(session: Session, site: Site, email: str, now: datetime) -> bool:
    """Count a confirmation to a mailbox, which gets mail to many addresses with tags; return whether it gets no more today."""
    mailbox, most = links.address_hash(site, addresses.mailbox_of(email)), sign_up_limits.PER_MAILBOX_A_DAY
    return daily_counts.count_today(session, "confirmations", mailbox, most=most, now=now) is None


def was_lift_offered(session: Session, subscriber_id: int, now: datetime) -> bool:
    """Return whether a confirmation that lifts the suppression was sent in the last 30 days."""
    sent = select(Confirmation.id).where(
        Confirmation.subscriber_id == subscriber_id,
        Confirmation.lifts_suppression,
        Confirmation.made_at > now - LIFT_OFFER_INTERVAL,
    )
    return session.scalar(sent.limit(1)) is not None


def queue_confirmation(
    session: Session, site: Site, subscriber: Subscriber, confirmation: Confirmation, *, now: datetime
) -> SignUpResult:
    """Store a confirmation and queue its letter; the letter stores the confirmation's id, never the token."""
    session.add(confirmation)
    session.flush()
    decision = confirmation_decision(session, confirmation, subscriber)
    if confirmation.lifts_suppression:
        decision[outbox.LIFTS_SUPPRESSION] = True
    invitations.withdraw_invitation(session, site, subscriber.email_key, now=now)
    outbox.queue_letter(
        session,
        letter=planned_letters.ConfirmLetter(confirmation_id=confirmation.id, contents=decision),
        subscriber_id=subscriber.id,
        email=confirmation.email,
        site=site,
        now=now,
        expires_at=confirmation.expires_at,
    )
    return SignUpResult(
        outcome=SignUpOutcome.ASKED, subscriber_id=subscriber.id, confirmation_id=confirmation.id
    )


def confirmation_decision(
    session: Session, confirmation: Confirmation, subscriber: Subscriber
) -> dict[str, Any]:
    """Return the variables of a letter with a confirmation link: the requested digest and its schedule."""
    asked = request_of(session, confirmation, subscriber)
    decision = {"confirmation_id": confirmation.id, "requested": asked.digest, "schedule": asked.schedule}
    if not asked.remarks:
        return decision
    is_proven = bool(confirmation.evidence)
    remarks = asked.remarks if is_proven else [harmless_remark(*remark) for remark in asked.remarks]
    return {**decision, "remarks": remarks}


def harmless_remark(line: str, result: str) -> Remark:
    """Return a remark on a line that a stranger may have written, without text that links or dials."""
    return figures_in_words.quoted_words(line), figures_in_words.unlinkable(result)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a confirmation asks for: the digest and its schedule in words, and the topics."""

    digest: str  #: such as `a daily digest of papers on diffusion and robots`
    schedule: str  #: such as `Monday to Friday at 08:00, Oslo`
    topics: Mapping[str, str]  #: filters by name
    settings: str  #: such as `Every day at 08:00, UTC · at most 10 papers · short abstracts`
    remarks: tuple[Remark, ...] = ()  #: what the lines of a sign-up by mail gave


def request_of(session: Session, confirmation: Confirmation, subscriber: Subscriber) -> Request:
    """Return the request stored with a confirmation; current settings replace what it leaves out."""
    requested = ReaderSettings.from_json(confirmation.requested_settings)
    texts = {**reader_settings.texts_of(subscriber), **requested.texts}
    schedule = reader_settings.schedule_in(texts)
    stored = subscriber_topics.typed_topics(session, [subscriber.id])
    topics = requested.topics or stored.get(subscriber.id, {})
    return Request(
        digest=figures_in_words.requested_digest(
            schedule.cadence, list(map(one_line, topics)), own=own_names(topics)
        ),
        schedule=figures_in_words.schedule_in_words(schedule),
        topics=topics,
        settings=reader_settings.in_words(texts),
        remarks=requested.remarks,
    )


def own_names(topics: Mapping[str, str]) -> frozenset[str]:
    """Return the names that no stranger chose: those of the topics that the form offers, and of packs."""
    return frozenset(
        name
        for name, text in topics.items()
        if STARTER_TOPICS.get(name) == text or filter_registry.is_pack_topic(name, text)
    )


def last_requested(session: Session, subscriber: Subscriber) -> ReaderSettings:
    """Return the settings that the subscriber requested last; invitations are ignored."""
    latest = (
        select(Confirmation.requested_settings)
        .where(
            Confirmation.subscriber_id == subscriber.id,
            Confirmation.requested_settings != invitations.INVITED_MARK,
        )
        .order_by(Confirmation.id.desc())
    )
    found = session.scalar(latest.limit(1))
    return ReaderSettings.from_json(found) if found else NOTHING_GIVEN


def send_settings_letter(session: Session, site: Site, subscriber: Subscriber, now: datetime) -> SignUpResult:
    """Queue the settings letter for an active or paused subscriber, at most once a day for the same links."""
    outbox.queue_letter(
        session,
        letter=planned_letters.SettingsLetter(
            subscriber_id=subscriber.id, link_version=subscriber.link_version, day=now.date()
        ),
        subscriber_id=subscriber.id,
        email=subscriber.contact_email,
        site=site,
        now=now,
    )
    return SignUpResult(outcome=SignUpOutcome.KNOWN, subscriber_id=subscriber.id)


def send_link(session: Session, site: Site, subscriber: Subscriber, now: datetime) -> bool:
    """Mail the settings link to the subscriber's own address, at most twice a day, since anybody can ask for it.

    Returns False, and mails nothing, if the subscriber gets no digests.
    """
    if subscriber.state not in HAS_TOPICS:
        return False
    queued = (
        outbox.queue_letter(
            session,
            letter=planned_letters.SettingsLinkLetter(
                subscriber_id=subscriber.id,
                link_version=subscriber.link_version,
                day=now.date(),
                number=number,
            ),
            subscriber_id=subscriber.id,
            email=subscriber.contact_email,
            site=site,
            now=now,
        )
        for number in range(MAX_LINKS_A_DAY)
    )
    any(number is not None for number in queued)
    return True


def queue_reminders(session: Session, site: Site, now: datetime) -> int:
    """Queue a reminder for each confirmation that is unused after a day; return how many were queued.

    An address gets only one reminder, however often it is signed up. Invited and suppressed addresses get no
    reminder. No reminders are sent while too many unused confirmations slow down sign-ups.
    """
    if sign_up_limits.is_slower(counts(session, now)):
        return 0
    unanswered = (
        select(Confirmation, Subscriber)
        .join(Subscriber, Subscriber.id == Confirmation.subscriber_id)
        .where(
            Confirmation.used_at.is_(None),
            Confirmation.requested_settings != invitations.INVITED_MARK,
            ~Confirmation.lifts_suppression,
            Confirmation.made_at <= now - REMIND_AFTER,
            Confirmation.expires_at > now,
            Subscriber.state == SubscriberState.PENDING,
        )
    )
    queued = [
        outbox.queue_letter(
            session,
            letter=planned_letters.ReminderLetter(
                subscriber_id=subscriber.id,
                contents=confirmation_decision(session, confirmation, subscriber),
            ),
            subscriber_id=subscriber.id,
            email=confirmation.email,
            site=site,
            now=now,
            expires_at=confirmation.expires_at,
        )
        for confirmation, subscriber in session.execute(unanswered).all()
    ]
    return sum(number is not None for number in queued)


def skip_reminders(session: Session, site: Site, reason: str, *, now: datetime) -> int:
    """Store an expired reminder for every unused confirmation, so that no reminder is sent.

    Returns the number of reminders stored.
    """
    unanswered = (
        select(Subscriber.id, func.coalesce(Subscriber.owner_email, Subscriber.email))
        .join(Confirmation, Confirmation.subscriber_id == Subscriber.id)
        .where(Confirmation.used_at.is_(None), Confirmation.expires_at > now)
        .distinct()
    )
    ended = {"state": DeliveryState.EXPIRED, "reason": reason, "settled_at": now}
    rows = [
        {
            **ended,
            **planned_letters.ReminderLetter(subscriber_id=number).columns(),
            "subscriber_id": number,
            "email": email,
        }
        for number, email in session.execute(unanswered)
    ]
    return outbox.queue_bulk_letters(session, rows, site=site, now=now) if rows else 0


# ── confirmation ────────────────────────────────────────────────────────────────────────────────


def confirmation_in(session: Session, site: Site, token: str, now: datetime) -> Confirmation | None:
    """Return the confirmation that a token identifies, or None if the token is invalid or expired."""
    number = links.verify_token(site, "confirm", token)
    if number is None:
        return None
    confirmation = session.get(Confirmation, int(number))
    if confirmation is None or (confirmation.used_at is None and confirmation.expires_at <= now):
        return None
    return confirmation


def is_expired(session: Session, site: Site, token: str, now: datetime) -> bool:
    """Return whether a token belongs to a confirmation that expired unused."""
    number = links.verify_token(site, "confirm", token)
    confirmation = session.get(Confirmation, int(number)) if number is not None else None
    return confirmation is not None and confirmation.used_at is None and confirmation.expires_at <= now


def subscriber_of(session: Session, confirmation: Confirmation) -> Subscriber:
    """Return the subscriber of a confirmation."""
    return session.get_one(Subscriber, confirmation.subscriber_id)


def confirm(
    session: Session,
    site: Site,
    token: str,
    now: datetime,
    *,
    how: str = "confirmed by link",
    network: str | None = None,
    choose_papers: ChoosePapers | None = None,
) -> Subscriber | None:
    """Activate the subscriber of a confirmation, and queue the welcome letter with the papers chosen for it.

    The request is applied that the letter showed, also if an earlier one was confirmed; a later one that was
    confirmed stays. Returns None if the link is invalid or has expired, or if the address is suppressed. Using
    the link again changes nothing and returns the current subscriber. If the confirmation was sent to an address suppressed
    by bounces or a complaint, using it lifts the suppression.
    """
    confirmation = confirmation_in(session, site, token, now)
    if confirmation is None:
        return None
    subscriber = session.get_one(Subscriber, confirmation.subscriber_id, with_for_update=True)
    if not mark_used(session, confirmation, now):
        return subscriber
    is_resumed = confirmation.lifts_suppression and bounce_score.lift_confirmed_suppression(
        session, site, subscriber.email, confirmed=confirmation.made_at, now=now
    )
    if suppressions.is_suppressed(session, site, subscriber.email):
        return None
    requested = ReaderSettings.from_json(confirmation.requested_settings)
    if not is_resumed and subscriber.state in HAS_TOPICS:
        if not is_superseded(session, confirmation):
            preferences.apply_requested(session, subscriber, requested, now=now)
        return subscriber
    if not subscriber.is_group and addresses.fold_address(confirmation.email) == subscriber.email_key:
        subscriber.email = confirmation.email  # as typed in the request that is confirmed
    preferences.apply_requested(session, subscriber, requested, now=now)
    activate(session, subscriber, now)
    how = f"{how}, requested {confirmation.evidence}" if confirmation.evidence else how
    session.add(Consent(subscriber_id=subscriber.id, given_at=now, how=how, address=network))
    # Papers in the letter to a group's owner would count as shown to the group, although its members did not
    # get them.
    may_show = choose_papers is not None and not subscriber.is_group
    papers = choose_papers(session, subscriber) if choose_papers and may_show else WelcomePapers()
    queue_welcome(session, site, subscriber, confirmation.id, papers, now)
    return subscriber


def is_superseded(session: Session, confirmation: Confirmation) -> bool:
    """Return whether a later request of the same subscriber was confirmed."""
    later = select(Confirmation.id).where(
        Confirmation.subscriber_id == confirmation.subscriber_id,
        Confirmation.id > confirmation.id,
        Confirmation.used_at.is_not(None),
    )
    return session.scalar(later.limit(1)) is not None


def is_scanner(session: Session, confirmation: Confirmation, *, network: str, now: datetime) -> bool:
    """Return whether a mail scanner, not a person, may have pressed the button.

    A scanner is assumed if the button is pressed less than a minute after the letter was sent, and from a
    network other than the one that signed up.
    """
    if confirmation.used_at is not None or confirmation.network == network:
        return False
    return now - letter_sent_at(session, confirmation, now) < SCANNER_SECONDS


def letter_sent_at(session: Session, confirmation: Confirmation, now: datetime) -> datetime:
    """Return when the letter or its reminder was last sent, or `now` if either is still being sent."""
    asked = planned_letters.ConfirmLetter(confirmation_id=confirmation.id)
    keys = [asked.key, planned_letters.ReminderLetter(subscriber_id=confirmation.subscriber_id).key]
    letters = select(Delivery.settled_at).where(Delivery.dedupe_key.in_(keys))
    settled = session.scalars(letters).all()
    return max((moment or now for moment in settled), default=confirmation.made_at)


def mark_used(session: Session, confirmation: Confirmation, now: datetime) -> bool:
    """Mark a confirmation as used; return False if it was already used."""
    used = session.execute(
        update(Confirmation)
        .where(Confirmation.id == confirmation.id, Confirmation.used_at.is_(None))
        .values(used_at=now)
        .returning(Confirmation.id)
    )
    return used.first() is not None


def activate(session: Session, subscriber: Subscriber, now: datetime) -> None:
    """Activate a subscriber; the first digest is the next one on the schedule and has that day's papers."""
    if subscriber.state == SubscriberState.UNSUBSCRIBED:
        opt_outs.record_subscribers(session, OptOutKind.RESUBSCRIBED, [subscriber.id], now=now)
        subscriber.synced_at, subscriber.is_removed_by_sync = None, False  # they resubscribed themselves
    subscriber.state = SubscriberState.ACTIVE
    subscriber.confirmed_at = now
    subscriber.unsubscribed_at = None
    subscriber.leaving_reason = ""
    subscriber.considered_until = subscriber.considered_paper_id = None
    subscriber.next_due_at = next_digest.edition_status(session, subscriber, now).upcoming.due_at
    session.flush()


def welcome_of(session: Session, confirmation: Confirmation) -> Mapping[str, Any]:
    """Return the content of the welcome letter (`until_then`, `is_on_topics` and `cards`).

    The result is empty if the letter was deleted.
    """
    letter = planned_letters.WelcomeLetter(confirmation_id=confirmation.id)
    query = select(Delivery.decision).where(Delivery.dedupe_key == letter.key)
    found: Mapping[str, Any] = json.loads(session.scalar(query) or "{}")
    return found


def queue_welcome(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    confirmation_id: int,
    papers: WelcomePapers,
    now: datetime,
) -> None:
    """Queue the welcome letter with the first digest's date and some papers, which then count as shown."""
    contents = {
        "next_due": next_digest.next_digest_in_words(session, subscriber, now=now),
        "until_then": papers.sentence,
        "is_on_topics": papers.is_on_topics,
        "has_topics": bool(subscriber_topics.typed_topics(session, [subscriber.id])),
        "cards": [card.to_json() for card in papers.cards.values()],
        "papers": list(papers.cards),
    }
    number = outbox.queue_letter(
        session,
        letter=planned_letters.WelcomeLetter(confirmation_id=confirmation_id, contents=contents),
        subscriber_id=subscriber.id,
        email=subscriber.contact_email,
        site=site,
        now=now,
    )
    if number is not None:
        shown.record(session, (subscriber.id, number, list(papers.cards)), shown_on=now.date())
