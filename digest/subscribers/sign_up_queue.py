"""Queue sign-ups, and send their confirmation letters at a limited rate.

 request: a row is written ─▶ send_confirmations, every few seconds: letters for the next sign-ups ─▶ the row is deleted

Each network is stored only as a keyed hash, and only while its sign-ups wait or count towards the rate.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.service_state import Observation
from digest.db.tables.subscribers import SUBSCRIBED, Confirmation, SignUp, Subscriber, SubscriberState
from digest.delivery.limits import daily_counts
from digest.errors import UsageError
from digest.mail import addresses
from digest.site.links import keyed_hash
from digest.site.site_profile import Site
from digest.subscribers import confirmation_letters, confirmations, subscriber_rows
from digest.subscribers import sign_up_limits as limits
from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings

log = logging.getLogger(__name__)

#: The name of the observation that a request had a proxy header while DIGEST_PROXIES was 0.
PROXY_HEADER = "proxy header"
REPORT_FOR = timedelta(days=7)


def network_hash(site: Site, network: str | None) -> str:
    """Return the keyed hash of a network; UNKNOWN if the network is None."""
    return keyed_hash(site.pepper, f"network\0{network}").hex()[:16] if network else limits.UNKNOWN


def mail_network(site: Site, network: str) -> str:
    """Return the hash of the network from which a sign-up was mailed; BY_MAIL if the network is unknown."""
    return network_hash(site, f"mail {network}") if network else limits.BY_MAIL


# ── sign-up ─────────────────────────────────────────────────────────────────────────────────────


def request(
    session: Session,
    email: str,
    *,
    network: str,
    requested: ReaderSettings = NOTHING_GIVEN,
    may_sign_up: frozenset[str] | None = None,
    now: datetime,
) -> None:
    """Queue a sign-up, whether or not the address is subscribed; no letter is sent yet.

    A repeated sign-up from the same network replaces the requested settings. Raises BadField if the address
    is invalid or its domain may not sign up, BadField or BadFilter if a requested setting is invalid, and
    UsageError if the network has too many sign-ups waiting.
    """
    address = confirmations.check_request(session, email, requested, may_sign_up)
    row = {
        "email": address.email,
        "email_key": address.folded,
        "network": network,
        "requested_settings": requested.to_json(),
        "asked_at": now,
    }
    limit_waiting(session, network)
    adding = db.upsert(session, SignUp).values(row)
    newer = {"email": row["email"], "requested_settings": row["requested_settings"]}
    session.execute(adding.on_conflict_do_update(index_elements=["email_key", "network"], set_=newer))


def request_proven(
    session: Session,
    site: Site,
    email: str,
    *,
    signed_by: str,
    evidence: str,
    requested: ReaderSettings,
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> bool:
    """Queue the confirmation for an address whose owner asked for it in a message that proves its sender.

    The confirmation does not wait in the queue and does not count towards its rate. Returns False if the
    request must wait in the queue: if the address was sent a confirmation today, or the signing domain has
    too many unanswered confirmations, since the owner of a domain can sign for any number of addresses.
    """
    address = confirmations.check_request(session, email, requested, may_sign_up)
    owner = addresses.registered_domain(signed_by)  # its subdomains cost nothing
    network = f"{limits.PROVEN}{network_hash(site, f'{limits.PROVEN}{owner}')[:15]}"
    if limits.has_reached_limit(session, network, now):
        return False
    result = confirmations.queue_sign_up_letter(
        session,
        site,
        address,
        requested.to_json(),
        network=network,
        evidence=evidence,
        may_lift=True,
        now=now,
    )
    return result.outcome is not confirmations.SignUpOutcome.CAPPED


def limit_waiting(session: Session, network: str) -> None:
    """Raise UsageError if this network has too many waiting sign-ups.

    If the queue is full, the newest sign-up of the network with the most waiting sign-ups is dropped.
    """
    of_network = session.scalar(select(func.count()).where(SignUp.network == network)) or 0
    if of_network >= limits.MAX_WAITING_PER_NETWORK and network not in limits.SHARED:
        raise UsageError("Too many sign-ups from your network are waiting. Try again later.")
    if (session.scalar(select(func.count(SignUp.id))) or 0) < limits.MAX_WAITING:
        return
    largest = select(SignUp.network).group_by(SignUp.network).order_by(func.count().desc()).limit(1)
    newest = select(func.max(SignUp.id)).where(SignUp.network == largest.scalar_subquery())
    session.execute(delete(SignUp).where(SignUp.id == newest.scalar_subquery()))
    log.warning("%d sign-ups are waiting; dropped the newest from the largest network", limits.MAX_WAITING)


def send_link_or_sign_up(
    session: Session,
    site: Site,
    email: str,
    *,
    network: str,
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> bool:
    """Mail a new settings link to a subscriber; sign up an address that is not subscribed if it may sign up.

    An address that has not confirmed yet is signed up again with the settings that it requested last. Returns
    False if the network has asked for too many links today.
    """
    most = limits.LINKS_A_DAY if network else limits.LINKS_A_DAY_UNKNOWN
    if daily_counts.count_today(session, "links", network, most=most, now=now) is None:
        return False
    reader = subscriber_rows.find(session, email)
    if reader is not None and reader.state in SUBSCRIBED:
        return confirmations.send_link(session, site, reader, now)
    is_pending = reader is not None and reader.state == SubscriberState.PENDING
    requested = confirmations.last_requested(session, reader) if reader and is_pending else NOTHING_GIVEN
    with suppress(UsageError):  # the response must not reveal who may sign up
        request(session, email, network=network, requested=requested, may_sign_up=may_sign_up, now=now)
    return True


# ── confirmations ───────────────────────────────────────────────────────────────────────────────


def are_waiting(session: Session) -> bool:
    """Return whether any sign-up is waiting."""
    return bool(session.scalar(select(exists(select(SignUp.id)))))


def send_confirmations(session: Session, site: Site, now: datetime) -> int:
    """Queue the confirmations that may be sent now; return the number of letters queued.

    Sign-ups that have waited for longer than MAX_WAIT are dropped.
    """
    forget_sign_ups(session, now)
    counted = limits.counts(session, now)
    allowed = limits.confirmations_allowed(session, now, counted)
    chosen = next_sign_ups(session, now, is_lowest=counted.is_lowest)[:allowed] if allowed else ()
    return sum(answer_request(session, site, number, now) for number in chosen)


def next_sign_ups(session: Session, now: datetime, *, is_lowest: bool) -> list[int]:
    """Return the ids of the sign-ups that may get confirmations, in the order in which they get them.

    The network with the fewest unanswered confirmations is served first, so a network that floods the queue waits
    behind all others. An address is named once, even if several networks signed it up, and not within
    24 hours of its last confirmation: a later request gets its own letter.
    """
    (_, day), *_ = limits.PER_ADDRESS
    was_sent = exists().where(
        Subscriber.email_key == SignUp.email_key,
        Confirmation.subscriber_id == Subscriber.id,
        limits.IS_ASKED_FOR,
        Confirmation.made_at > now - day,
    )
    counted = (
        select(Confirmation.network, limits.UNANSWERED.label("unanswered"), limits.ANSWERED.label("answered"))
        .where(Confirmation.made_at > now - limits.REMEMBERED_FOR, limits.BY_A_STRANGER)
        .group_by(Confirmation.network)
        .subquery()
    )
    least = limits.PER_NETWORK_AT_LOWEST if is_lowest else limits.PER_NETWORK
    place = func.row_number().over(partition_by=SignUp.network, order_by=SignUp.id)
    turns = (
        select(
            SignUp.id,
            SignUp.email_key,
            SignUp.network,
            (func.coalesce(counted.c.unanswered, 0) + place).label("turn"),
            (func.coalesce(counted.c.answered, 0) * limits.CREDIT + least).label("most"),
        )
        .outerjoin(counted, counted.c.network == SignUp.network)
        .where(~was_sent)
        .subquery()
        .c
    )
    may_go = (turns.turn <= turns.most) | (turns.network == limits.UNKNOWN)
    first = dict[str, int]()
    for number, key in session.execute(
        select(turns.id, turns.email_key).where(may_go).order_by(turns.turn, turns.id)
    ):
        first.setdefault(key, number)
    return list(first.values())


def answer_request(session: Session, site: Site, number: int, now: datetime) -> bool:
    """Queue the letter for one sign-up, and return whether a letter was queued.

    Other sign-ups of the address wait for their own letters, so that each letter shows what its link confirms.
    """
    columns = SignUp.email, SignUp.email_key, SignUp.network, SignUp.requested_settings
    row = session.execute(delete(SignUp).where(SignUp.id == number).returning(*columns)).first()
    if row is None:  # another process has handled the sign-up
        return False
    address = addresses.Address(email=row.email, folded=row.email_key)
    result = confirmations.queue_sign_up_letter(
        session, site, address, row.requested_settings, network=row.network, may_lift=True, now=now
    )
    return result.outcome in {confirmations.SignUpOutcome.ASKED, confirmations.SignUpOutcome.KNOWN}


def remind_unconfirmed(session: Session, site: Site, now: datetime) -> None:
    """Queue the reminders that are due, and delete sign-ups that expired."""
    forget_sign_ups(session, now)
    confirmation_letters.queue_reminders(session, site, now)


def forget_sign_ups(session: Session, now: datetime) -> None:
    """Delete sign-ups that waited too long, and network hashes in confirmations that no longer count."""
    dropped = session.execute(
        delete(SignUp).where(SignUp.asked_at <= now - limits.MAX_WAIT).returning(SignUp.id)
    ).all()
    if dropped:
        log.warning("dropped %d sign-ups that had waited for %s", len(dropped), limits.MAX_WAIT)
    old = update(Confirmation).where(
        Confirmation.network.not_in([limits.UNKNOWN, Confirmation.BY_OPERATOR]),
        Confirmation.made_at <= now - limits.REMEMBERED_FOR,
    )
    session.execute(old.values(network=limits.UNKNOWN))


# ── a proxy that is not configured ──────────────────────────────────────────────────────────────


def note_proxy_header(session: Session, now: datetime) -> None:
    """Record that a request came through a proxy although DIGEST_PROXIES is 0."""
    row = {"name": PROXY_HEADER, "at": now}
    adding = db.upsert(session, Observation).values(row)
    session.execute(adding.on_conflict_do_update(index_elements=["name"], set_={"at": now}))


def proxy_header_seen(session: Session, now: datetime) -> bool:
    """Return whether a request with a proxy header was recorded in the last seven days."""
    at = session.scalar(select(Observation.at).where(Observation.name == PROXY_HEADER))
    return at is not None and at > now - REPORT_FOR
