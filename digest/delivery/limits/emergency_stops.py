"""Stop mail if too many digests fail or are reported as spam, until the operator resumes it.

Only digests count: strangers can cause other letters, to addresses that never agreed to get mail.
Deferrals are counted among the digests first attempted in the last hour; bounces, complaints and policy
refusals among the digests attempted in the last 24 hours. Attempts and reports from before mail was last
resumed do not count.
Too many policy refusals stop all mail; every other threshold stops digests only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, not_, select, update
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Attempt, Delivery
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.service_state import EmergencyStop
from digest.db.tables.subscribers import Confirmation, Consent, Subscriber
from digest.delivery.limits.decisions import ALL, BULK
from digest.mail import addresses

HOUR, DAY = timedelta(hours=1), timedelta(hours=24)
#: Number of latest attempts that are counted; counting a million every minute would be slow.
MAX_ATTEMPTS = 20_000
#: Number of latest reports of each kind that are used to find when the reported letters were sent.
MAX_REPORTS = 200

#: Minimum count of each kind that can stop mail, and of independent sources: more than a few strangers who mean to stop it.
MIN_COUNTS = {"bounces": 20, "complaints": 10, "deferred": 20, "policy": 20}
#: The same for a warning: more than one person.
MIN_WARNINGS = {"complaints": 2}
#: A reader who confirmed this long ago counts alone; an attacker would have to read our digests for as long.
SETTLED_AFTER = timedelta(days=30)
#: The share of complaints at which the operator is warned. Gmail and Yahoo ask senders to stay below it, and may refuse
#: mail at 0.3%.
WARN_AT = {"complaints": 0.001}

#: Minimum number of attempts at a letter before its deferrals at RCPT count; fewer may be greylisting.
GREYLISTING_ATTEMPTS = 3
CLOSING_CODE = 421  #: the code with which a server closes the connection
SYSTEM_STATUS = "4.3.%"  #: the pattern of statuses about the mail system, not the recipient (RFC 3463, X.3.X)

#: The kind of bounce that each threshold counts.
FAILURE_KINDS = {"bounces": "hard", "complaints": "complaint", "policy": "policy"}

ATTEMPT_TABLE: Any = Attempt.__table__
BOUNCE_TABLE: Any = BounceRow.__table__


FAILURES_IN_WORDS = {
    "bounces": "bounced: unknown recipient", "complaints": "were reported as spam",
    "deferred": "were deferred by the mail server", "policy": "were refused for policy reasons",
}  # fmt: skip
#: The beginning of a sentence about a stop, keyed by its scope.
STOPPED_MAIL = {ALL: "All mail is", BULK: "Digests are"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdReading:
    """The number of digests that failed in a given way, and the number of digests attempted."""

    what: str  #: bounces, complaints, deferred or policy
    count: int
    attempts: int
    limit: float

    @property
    def scope(self) -> str:
        """Return which mail is stopped if this limit is exceeded.

        Policy refusals stop all mail: each further letter would make the sender's reputation worse.
        """
        return ALL if self.what == "policy" else BULK

    @property
    def message(self) -> str:
        """Return the reading as a sentence."""
        what = FAILURES_IN_WORDS[self.what]
        return f"{self.count:,} of {self.attempts:,} digests {what} (the limit is {self.limit * 100:g}%)"


def threshold_warnings(session: Session, *, now: datetime) -> list[ThresholdReading]:
    """Return the readings that reach the warning level, which is below the default stop threshold."""
    return threshold_readings(session, WARN_AT, now=now, least=MIN_WARNINGS)


def threshold_readings(
    session: Session, limits: Mapping[str, float], *, now: datetime, least: Mapping[str, int] = MIN_COUNTS
) -> list[ThresholdReading]:
    """Return the readings whose limit is reached by failures from enough independent sources."""
    if not limits:
        return []
    last = session.scalar(select(func.max(EmergencyStop.lifted_at)))
    hour, day = (max(now - span, last) if last else now - span for span in (HOUR, DAY))
    found = []
    for what, limit in limits.items():
        counts = (
            count_returned(session, FAILURE_KINDS[what], day)
            if what in FAILURE_KINDS
            else [count_deferred(session, hour, day)]
        )
        found += [
            ThresholdReading(what=what, count=one.count, attempts=one.attempts, limit=limit)
            for one in counts
            if one.count >= max(least[what], limit * one.attempts)
            and independent_sources(session, one.failed, now=now) >= least[what]
        ][:1]
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCount:
    """The number of digests that failed in one way, their ids as a query, and the number attempted."""

    count: int
    attempts: int
    failed: Select[tuple[int]]


def independent_sources(session: Session, letters: Select[tuple[int]], *, now: datetime) -> int:
    """Count the independent readers of these letters: their networks, or their domains if these are fewer.

    One person can confirm many addresses from one network, and can own all addresses of a domain. Each address
    of a large provider counts, and each that the operator added. An unknown network counts as its domain. A reader
    who confirmed long ago counts alone, because the readers of a laboratory share a network and a domain.
    """
    network = select(Consent.address).where(Consent.subscriber_id == Delivery.subscriber_id)
    signed_up = exists().where(
        Confirmation.subscriber_id == Delivery.subscriber_id, Confirmation.network != Confirmation.BY_OPERATOR
    )
    is_settled = exists().where(
        Subscriber.id == Delivery.subscriber_id, Subscriber.confirmed_at <= now - SETTLED_AFTER
    )
    is_stranger = signed_up & ~is_settled
    columns = Delivery.email, network.order_by(Consent.id.desc()).limit(1).scalar_subquery(), is_stranger
    networks, owners = set(), set()
    for email, confirmed_from, is_unknown in session.execute(
        select(*columns).where(Delivery.id.in_(letters)).distinct()
    ):
        mailbox = addresses.mailbox_of(email or "")
        domain = addresses.registered_domain(mailbox.rpartition("@")[2])
        owner = domain if is_unknown and domain not in addresses.WELL_KNOWN_DOMAINS else mailbox
        networks.add(confirmed_from if is_unknown and confirmed_from else owner)
        owners.add(owner)
    return min(len(networks), len(owners))


def count_deferred(session: Session, hour: datetime, day: datetime) -> FailureCount:
    """Count the digests first attempted after `hour`, and those among them that were always deferred."""
    letters = attempts_by_letter(recent_attempts(day))
    is_new, is_deferred = letters.c.first > hour, letters.c.verdict == "deferred"
    counts = func.count().filter(is_new, is_deferred), func.count().filter(is_new)
    count, attempts = session.execute(select(*counts).select_from(letters)).one()
    failed = select(letters.c.delivery_id).where(is_new, is_deferred)
    return FailureCount(count=count, attempts=attempts, failed=failed)


def recent_attempts(since: datetime, *, middle: int | None = None) -> Any:
    """Return a subquery of the attempts at digests among the latest attempts, or those around the id `middle`.

    Attempts are selected by id, because no index orders them by time.
    """
    names = ("delivery_id", "verdict", "ended_at", "phase", "code", "reply")
    columns = [ATTEMPT_TABLE.c[name] for name in names]
    among = select(*columns).order_by(ATTEMPT_TABLE.c.id.desc()).limit(MAX_ATTEMPTS)
    if middle is not None:
        among = among.where(ATTEMPT_TABLE.c.id <= middle + MAX_ATTEMPTS // 2)
    latest = among.subquery()
    tried = latest.c.verdict.in_(("accepted", "deferred", "refused"))
    is_digest = exists().where(Delivery.id == latest.c.delivery_id, Delivery.edition.is_not(None))
    query: Select[Any] = select(latest).where(latest.c.ended_at > since, tried, is_digest)
    return query.subquery()


def attempts_by_letter(attempts: Any) -> Any:
    """Return a subquery of one row for each letter: the time of its first attempt, and its common verdict.

    The verdict is "" if the verdicts of the attempts differ, or if the deferrals may be greylisting, which
    must not stop mail, because the second or third attempt succeeds. The time of the first attempt lets the
    caller ignore a few letters that are still being deferred long after all others were accepted.
    """
    verdicts = func.count(attempts.c.verdict.distinct())
    is_open = case((is_about_recipient(attempts), 1), else_=0)
    is_early = and_(func.count() < GREYLISTING_ATTEMPTS, func.max(is_open) == 1)
    verdict = case((and_(verdicts == 1, not_(is_early)), func.min(attempts.c.verdict)), else_="")
    first = func.min(attempts.c.ended_at).label("first")
    columns = attempts.c.delivery_id, first, verdict.label("verdict")
    return select(*columns).group_by(attempts.c.delivery_id).subquery()


def is_about_recipient(attempts: Any) -> ColumnElement[bool]:
    """Return the condition for attempts that were deferred because of the recipient, not of the connection or system."""
    return and_(
        attempts.c.verdict == "deferred",
        attempts.c.phase == "rcpt",
        attempts.c.code != CLOSING_CODE,
        attempts.c.reply.not_like(SYSTEM_STATUS),
    )


def count_returned(session: Session, kind: str, since: datetime) -> Iterator[FailureCount]:
    """Yield up to two counts of the digests that were reported and attempted.

    Reports are bounces, complaints or policy refusals, as selected by `kind`. The first count covers the
    latest attempts. The second covers the attempts near those named in the latest reports, since some reports
    arrive minutes or hours after the attempt. Yields nothing if there are no reports.
    """
    latest = select(BOUNCE_TABLE).order_by(BOUNCE_TABLE.c.id.desc()).limit(MAX_ATTEMPTS).subquery()
    conditions = (latest.c.kind == kind, latest.c.at > since, latest.c.forgiven_at.is_(None))
    if session.scalar(select(latest.c.id).where(*conditions).limit(1)) is None:
        return
    yield count_among_tried(session, latest, conditions, recent_attempts(since))
    middle = middle_attempt_of_reports(session, latest, conditions)
    if middle is not None:
        yield count_among_tried(session, latest, conditions, recent_attempts(since, middle=middle))


def count_among_tried(
    session: Session, latest: Any, conditions: Sequence[ColumnElement[bool]], tried: Any
) -> FailureCount:
    """Count the reported digests among these attempts, and the digests attempted."""
    letters = select(func.count(tried.c.delivery_id.distinct())).scalar_subquery()
    known = latest.c.delivery_id.in_(select(tried.c.delivery_id))
    count, attempts = session.execute(
        select(func.count(latest.c.hmac.distinct()), letters).where(*conditions, known)
    ).one()
    failed = select(latest.c.delivery_id).where(*conditions, known)
    return FailureCount(count=count, attempts=attempts, failed=failed)


def middle_attempt_of_reports(
    session: Session, latest: Any, conditions: Sequence[ColumnElement[bool]]
) -> int | None:
    """Return the id of the median attempt among those named in reports other than SMTP replies."""
    reports = (
        select(latest.c.delivery_id)
        .where(*conditions, latest.c.delivery_id.is_not(None), latest.c.reported_by != "smtp")
        .order_by(latest.c.id.desc())
        .limit(MAX_REPORTS)
    )
    first = func.min(ATTEMPT_TABLE.c.id)
    attempts = (
        select(first).where(ATTEMPT_TABLE.c.delivery_id.in_(reports)).group_by(ATTEMPT_TABLE.c.delivery_id)
    )
    found = session.scalars(attempts.order_by(first)).all()
    return found[len(found) // 2] if found else None


def check_thresholds(
    session: Session, limits: Mapping[str, float], *, now: datetime
) -> ThresholdReading | None:
    """Stop mail if a threshold is exceeded; return the reading that caused it, or None if nothing is stopped."""
    for reading in threshold_readings(session, limits, now=now):
        if emergency_stop(session, reading.message, scope=reading.scope, now=now):
            return reading
    return None


def emergency_stop(session: Session, reason: str, *, scope: str, now: datetime) -> bool:
    """Stop the mail of a scope; return False if a stop of this scope is already in force."""
    row = {"scope": scope, "since": now, "reason": reason[:400]}
    adding = db.upsert(session, EmergencyStop).values(row).on_conflict_do_nothing()
    return session.execute(adding.returning(EmergencyStop.id)).first() is not None


def active_stops(session: Session) -> list[EmergencyStop]:
    """Return the stops in force."""
    in_force = select(EmergencyStop).where(EmergencyStop.lifted_at.is_(None))
    return list(session.scalars(in_force.order_by(EmergencyStop.id)))


def lift_stops(session: Session, *, now: datetime) -> int:
    """Lift all stops and return their number."""
    lifting = update(EmergencyStop).where(EmergencyStop.lifted_at.is_(None)).values(lifted_at=now)
    lifted = lifting.returning(EmergencyStop.id).execution_options(synchronize_session=False)
    return len(session.execute(lifted).all())
