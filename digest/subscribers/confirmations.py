"""Send confirmation letters, and activate subscribers who confirm (double opt-in).

Anybody can enter any address. A request therefore only creates a pending row, and the page shows the same
text for every address. The requested settings are stored with the confirmation and are applied when the
subscriber confirms.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from digest import db
from digest.bounces import bounce_score, opt_outs, suppressions
from digest.bounces.opt_outs import OptOutKind
from digest.bounces.suppressions import OWNER_CAN_LIFT
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import SUBSCRIBED, Confirmation, Consent, Subscriber, SubscriberState
from digest.delivery.outbox import planned_letters
from digest.errors import BadField
from digest.mail import addresses
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    confirmation_letters,
    next_digest,
    sign_up_limits,
    subscriber_letters,
    subscriber_rows,
    undo_changes,
    welcome_letters,
)
from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings
from digest.subscribers.welcome_letters import ChoosePapers, WelcomePapers

if TYPE_CHECKING:
    pass

CONFIRMATION_LIFETIME = timedelta(hours=48)
#: A press of the button from another network this soon after sending is attributed to a mail scanner.
SCANNER_SECONDS = timedelta(seconds=60)

MAX_LINKS_A_DAY = 2  #: maximum number of letters with the settings link to one subscriber a day


class SignUpOutcome(StrEnum):
    """The outcome of a request to subscribe. The web page shows the same text for every outcome."""

    ASKED = "asked"  #: a confirmation is queued
    KNOWN = "known"  #: the address is already subscribed; a letter with the settings link is queued
    CAPPED = "capped"  #: the address has been sent as many confirmations as allowed; nothing is sent
    SUPPRESSED = "suppressed"  #: the address is suppressed; nothing is sent


@dataclass(frozen=True, kw_only=True, slots=True)
class SignUpResult:
    """The outcome of a request to subscribe, with the id of the confirmation, if any."""

    outcome: SignUpOutcome
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
    address = check_request(session, email, requested, may_sign_up)
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
    if not suppression and subscriber.state in SUBSCRIBED:
        letter = planned_letters.SettingsLetter(
            subscriber_id=subscriber.id, link_version=subscriber.link_version, day=now.date()
        )
        subscriber_letters.queue_letter(session, site, subscriber, letter, now=now)
        return SignUpResult(outcome=SignUpOutcome.KNOWN)
    is_capped = sign_up_limits.is_address_capped(
        session, subscriber.id, now, is_suppressed=suppression is not None
    )
    if not is_capped and network != Confirmation.BY_OPERATOR:
        is_capped = sign_up_limits.is_mailbox_capped(session, site, address.email, now)
    if is_capped:
        return SignUpResult(outcome=SignUpOutcome.CAPPED)
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
    confirmation_letters.queue_confirmation(session, site, subscriber, confirmation, now=now)
    return SignUpResult(outcome=SignUpOutcome.ASKED, confirmation_id=confirmation.id)


def check_request(
    session: Session, email: str, requested: ReaderSettings, may_sign_up: Collection[str] | None
) -> addresses.Address:
    """Return the address that signs up; raise BadField or BadFilter if it may not, or if a setting is invalid."""
    address = addresses.parse_address(email)
    check_policy(address.email, may_sign_up)
    undo_changes.check(session, requested)
    return address


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


def last_requested(session: Session, subscriber: Subscriber) -> ReaderSettings:
    """Return the settings that the subscriber requested last; invitations are ignored."""
    own = Confirmation.subscriber_id == subscriber.id, sign_up_limits.IS_ASKED_FOR
    latest = select(Confirmation.requested_settings).where(*own).order_by(Confirmation.id.desc())
    found = session.scalar(latest.limit(1))
    return ReaderSettings.from_json(found) if found else NOTHING_GIVEN


def send_link(session: Session, site: Site, subscriber: Subscriber, now: datetime) -> bool:
    """Mail the settings link to the subscriber's own address, at most twice a day, since anybody can ask for it.

    Returns False, and mails nothing, if the subscriber gets no digests.
    """
    if subscriber.state not in SUBSCRIBED:
        return False
    for number in range(MAX_LINKS_A_DAY):
        letter = planned_letters.SettingsLinkLetter(
            subscriber_id=subscriber.id, link_version=subscriber.link_version, day=now.date(), number=number
        )
        if subscriber_letters.queue_letter(session, site, subscriber, letter, now=now) is not None:
            break
    return True


# ── confirmation ────────────────────────────────────────────────────────────────────────────────


def confirmation_in(session: Session, site: Site, token: str, now: datetime) -> Confirmation | None:
    """Return the confirmation that a token identifies, or None if the token is invalid or expired."""
    number = links.verify_token(site, "confirm", token)
    confirmation = session.get(Confirmation, int(number)) if number is not None else None
    if confirmation is None or (confirmation.used_at is None and confirmation.expires_at <= now):
        return None
    return confirmation


def is_expired(session: Session, site: Site, token: str, now: datetime) -> bool:
    """Return whether a token belongs to a confirmation that expired unused."""
    number = links.verify_token(site, "confirm", token)
    is_known = number is not None and session.get(Confirmation, int(number)) is not None
    return is_known and confirmation_in(session, site, token, now) is None


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
    if not is_resumed and subscriber.state in SUBSCRIBED:
        if not is_superseded(session, confirmation):
            undo_changes.apply_requested(session, subscriber, requested, now=now)
        return subscriber
    if not subscriber.is_group and addresses.fold_address(confirmation.email) == subscriber.email_key:
        subscriber.email = confirmation.email  # as typed in the request that is confirmed
    undo_changes.apply_requested(session, subscriber, requested, now=now)
    activate(session, subscriber, now)
    how = f"{how}, requested {confirmation.evidence}" if confirmation.evidence else how
    session.add(Consent(subscriber_id=subscriber.id, given_at=now, how=how, address=network))
    # Papers in the letter to a group's owner would count as shown to the group, although its members did not
    # get them.
    may_show = choose_papers is not None and not subscriber.is_group
    papers = choose_papers(session, subscriber) if choose_papers and may_show else WelcomePapers()
    welcome_letters.queue_welcome(session, site, subscriber, confirmation.id, papers, now)
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
