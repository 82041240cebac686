"""Find the problems of the service that its database shows, each with a cause and a fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import plurals
from digest.bounces.broken_domains import frozen_domains
from digest.bounces.failure_kinds import FailureKind
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState
from digest.db.tables.dumps import DumpRow, DumpState, SourceRow, UnreadDump
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.service_state import EmergencyStop
from digest.db.tables.subscribers import Subscriber
from digest.delivery.limits import emergency_stops
from digest.delivery.limits.emergency_stops import STOPPED_MAIL
from digest.delivery.transports.transport import Verdict
from digest.dumps.intake import stored_dumps
from digest.inbound import stored_mail
from digest.monitoring import work_problems
from digest.monitoring.check_results import Problem, Severity
from digest.monitoring.figures import DAY, Figures, count_figures
from digest.monitoring.supervisor import Supervisor
from digest.papers import expected_arrivals
from digest.papers.catalog import queries
from digest.papers.expected_arrivals import LateList
from digest.subscribers import sign_up_limits

#: The mail server is reported if it defers this many letters and the last attempt was within this time.
MIN_DEFERRED_LETTERS, RECENT_ATTEMPTS = 5, timedelta(hours=2)
MAX_ATTEMPTS_READ = 500  #: number of latest attempts that are searched for these letters
NOT_TAKEN_VERDICTS = frozenset({Verdict.DEFERRED, Verdict.IN_DOUBT})
FEW_DOMAINS = 3  #: maximum number of broken domains reported separately; more are reported together
MAX_NAMED = 20
UNREAD_REPORT_LIFETIME = timedelta(hours=1)  #: how long a report of an unread dump remains valid
#: Consecutive failures of a source: about three hours, with delays doubling from five minutes.
FAILING_AFTER = 6
NO_PAPERS_FIX = (
    "Copy a list of papers into the dumps folder, or add a source: digest sources add hf-daily. To see what the sources"
    " brought: digest sources list."
)


Facts = Callable[[Session, datetime], Iterable[str]]


# ── problems ────────────────────────────────────────────────────────────────────────────────────


def find_problems(
    session: Session,
    *,
    now: datetime,
    figures: Figures | None = None,
    supervisor: Supervisor | None = None,
) -> list[Problem]:
    """Return all problems found in the database; `figures` are the current figures, if already counted."""
    figures = figures or count_figures(session, now=now)
    return [
        *work_problems.find_work_problems(session, figures, supervisor or Supervisor(), now),
        *deferring_server(session, now),
        *unread_dumps(session, supervisor or Supervisor(), now),
        *stopped_mail(figures.stops),
        *too_many_complaints(session, now),
        *stuck_deliveries(session, now),
        *policy_refusals(session, now),
        *broken_domains(session, now),
        *held_dumps(session, now),
        *repeated_lists(session, now),
        *late_lists(figures.late_lists),
        *missing_papers(session, now),
        *failing_sources(session, now),
        *full_inbox(session),
        *slow_sign_ups(session, now),
    ]


def problem_of_facts(
    cause: str, message: str, fix: str, severity: Severity = Severity.NOTICE
) -> Callable[[Facts], Callable[[Session, datetime], Iterator[Problem]]]:
    """Make a check of a function that yields facts: it yields this problem if there are any."""

    def check(facts: Facts) -> Callable[[Session, datetime], Iterator[Problem]]:
        def find(session: Session, now: datetime) -> Iterator[Problem]:
            if found := tuple(facts(session, now)):
                yield Problem(cause=cause, message=message, fix=fix, severity=severity, facts=found)

        return find

    return check


def stopped_mail(stops: Iterable[EmergencyStop]) -> Iterator[Problem]:
    """Yield a problem for each emergency stop that the operator must lift."""
    for stop in stops:
        yield Problem(
            cause=f"stop-{stop.id}",
            message=f"{STOPPED_MAIL[stop.scope]} stopped",
            fix="See what went wrong: digest bounces list, digest deliveries. Then resume: digest deliveries resume.",
            severity=Severity.FAILURE,
            since=stop.since,
            facts=(stop.reason,),
        )


@problem_of_facts(
    "complaints",
    "Too many readers report our mail as spam",
    "Gmail and Yahoo ask for less than 0.1% and refuse mail from 0.3% on. Check what these readers have in common, such as"
    " an import without their consent: digest bounces list --kind complaint.",
)
def too_many_complaints(session: Session, now: datetime) -> Iterable[str]:
    """Return how often readers report our mail as spam, if that is more often than large providers accept."""
    return [surge.message for surge in emergency_stops.threshold_warnings(session, now=now)]


def deferring_server(session: Session, now: datetime) -> Iterator[Problem]:
    """Yield a problem if no letter was accepted or refused since the newest five letters were first attempted.

    Repeated deferrals of a few older letters are not enough, since the recipients' mailboxes may be full.
    Deferrals that may be greylisting are ignored, as they are for emergency stops.
    """
    latest = attempts_without_greylisting(session)
    firsts = sorted({row.delivery_id: place for place, row in enumerate(latest)}.values())[
        :MIN_DEFERRED_LETTERS
    ]
    recent = latest[: firsts[-1] + 1] if len(firsts) == MIN_DEFERRED_LETTERS else []
    if (
        recent
        and now - recent[0].began_at < RECENT_ATTEMPTS
        and all(row.verdict in NOT_TAKEN_VERDICTS for row in recent)
    ):
        codes = sorted({str(row.code) for row in recent if row.code})
        yield Problem(
            cause="mail-not-accepted",
            message="The mail server accepts no letters",
            fix="It defers every letter, or sends no reply. See its replies: digest deliveries --state queued, digest deliveries show.",
            since=recent[-1].began_at,
            facts=tuple(f"reply code {code}" for code in codes),
        )


def attempts_without_greylisting(session: Session) -> list[Any]:
    """Return the latest attempts, newest first, without deferrals that may be greylisting."""
    is_about_recipient = emergency_stops.is_about_recipient(Attempt.__table__).label("is_about_recipient")
    latest = session.execute(
        select(Attempt.delivery_id, Attempt.verdict, Attempt.began_at, Attempt.code, is_about_recipient)
        .where(Attempt.verdict.is_not(None))
        .order_by(Attempt.id.desc())
        .limit(MAX_ATTEMPTS_READ)
    ).all()
    tries = Counter(row.delivery_id for row in latest)
    return [
        row
        for row in latest
        if tries[row.delivery_id] >= emergency_stops.GREYLISTING_ATTEMPTS or not row.is_about_recipient
    ]


@problem_of_facts(
    "stuck",
    "Letters are stuck: they may have been delivered, or cannot be rendered",
    "Check each with digest deliveries show, and in the log of the mail server. Then: digest deliveries settle ID, with"
    " --send-again or --give-up.",
)
def stuck_deliveries(session: Session, now: datetime) -> Iterable[str]:
    """Return the letters that became stuck within the last day."""
    is_stuck = Delivery.state == DeliveryState.STUCK, Delivery.settled_at > now - DAY
    found = session.scalars(select(Delivery.id).where(*is_stuck).order_by(Delivery.id).limit(10))
    return [f"digest deliveries show {number}" for number in found]


@problem_of_facts(
    "policy",
    "Mail is refused because of how we send it",
    "No reader is unsubscribed for this. Check SPF, DKIM, DMARC and reverse DNS: digest doctor.",
)
def policy_refusals(session: Session, now: datetime) -> Iterable[str]:
    """Return the replies that refuse mail because of how we send it; such refusals unsubscribe no reader."""
    is_new = BounceRow.at > now - DAY, BounceRow.forgiven_at.is_(None)
    refusals = session.execute(
        select(BounceRow.domain, BounceRow.status, func.count(), func.max(BounceRow.diagnostic))
        .where(BounceRow.kind == FailureKind.POLICY, *is_new)
        .group_by(BounceRow.domain, BounceRow.status)
        .order_by(func.count().desc(), BounceRow.domain)
        .limit(10)
    )
    for domain, status, count, reply in refusals:
        yield f"{domain}: {reply if status in reply else f'{status} {reply}'} ({count})"


def broken_domains(session: Session, now: datetime) -> Iterator[Problem]:
    """Yield a problem for each domain where many addresses failed at once; many domains share one problem."""
    broken = frozen_domains(session, since=now - DAY)
    if len(broken) > FEW_DOMAINS:
        yield Problem(
            cause="frozen-many",
            severity=Severity.NOTICE,
            message=f"Addresses of {len(broken)} domains failed within a day",
            fix=(
                "So many at once suggest a fault on our side, so these failures do not count yet. If the fault is fixed:"
                " digest bounces forgive --domain DOMAIN. If the addresses are gone: digest bounces accept --domain DOMAIN."
            ),
            facts=tuple(f"{domain} ({count})" for domain, count in list(broken.items())[:MAX_NAMED]),
        )
        return
    for domain, count in broken.items():
        yield Problem(
            cause=f"frozen-{domain}"[:60],
            severity=Severity.NOTICE,
            message=f"{plurals.count(count, 'address', 'addresses')} of {domain} failed within a day",
            fix=(
                "So many at once suggest a fault at the domain, so these failures do not count yet. If the fault is fixed:"
                f" digest bounces forgive --domain {domain}. If the addresses are gone: digest bounces accept --domain {domain}."
            ),
        )


def unread_dumps(session: Session, supervisor: Supervisor, now: datetime) -> Iterator[Problem]:
    """Yield a problem if a machine's dumps folder contains unread dumps."""
    found = session.execute(
        select(UnreadDump.machine, UnreadDump.folder, UnreadDump.name, UnreadDump.since)
        .where(UnreadDump.seen_at > now - UNREAD_REPORT_LIFETIME)
        .order_by(UnreadDump.since)
        .limit(MAX_NAMED)
    ).all()
    if found:
        yield Problem(
            cause="unread-dumps",
            message="A dump has not been read"
            if len(found) == 1
            else f"{len(found)} dumps have not been read",
            fix=(
                "Only the scheduler's machine reads its dumps folder. Start the scheduler on the machine that has the file"
                f" ({supervisor.restart('scheduler')}), move the file to the dumps folder of the scheduler's machine, or load"
                " it where it is: digest intake FILE."
            ),
            since=found[0].since,
            facts=tuple(f"{machine}: {Path(folder) / name}" for machine, folder, name, _ in found),
        )


@problem_of_facts(
    "held-dumps",
    "A dump is incomplete and was not loaded",
    "Get the complete file, or load the incomplete dump: digest dumps retry ID --incomplete-ok.",
)
def held_dumps(session: Session, now: datetime) -> Iterable[str]:
    """Return the incomplete dumps that wait for the operator's decision."""
    is_held = DumpRow.state == DumpState.HELD, DumpRow.read_at > now - DAY
    held = select(DumpRow.id, DumpRow.path, DumpRow.reason).where(*is_held).order_by(DumpRow.id)
    return [dump_fact(*row) for row in session.execute(held.limit(10))]


@problem_of_facts(
    "repeated-lists",
    "A list of a new day has no new papers",
    "Compare it with the source's list: digest dumps show ID. If the source sends an old list, poll it later: digest"
    " sources poll SOURCE.",
    Severity.OUTAGE,
)
def repeated_lists(session: Session, now: datetime) -> Iterable[str]:
    """Return the lists of a new day that brought only papers of earlier days."""
    return [dump_fact(*row) for row in stored_dumps.repeated_lists(session, since=now - DAY)]


def dump_fact(number: int, path: str, reason: str | None) -> str:
    """Return the number, the file and the state of a dump."""
    return f"dump {number}, {Path(path).name}: {reason}"


def late_lists(missing: Sequence[LateList]) -> Iterator[Problem]:
    """Yield a problem if a list that usually arrives by this hour of the weekday is late."""
    if missing:
        yield Problem(
            cause="late-lists",
            message="A list of papers is late",
            fix="See what arrived last: digest dumps list, digest sources list. Poll a source now: digest sources poll SOURCE.",
            severity=Severity.NOTICE,
            since=min(one.expected_by for one in missing),
            facts=tuple(f"{one} (the last arrived {one.last_at:%Y-%m-%d %H:%M} UTC)" for one in missing),
        )


def missing_papers(session: Session, now: datetime) -> Iterator[Problem]:
    """Yield a problem if no new papers come for the readers, or if a source brings nothing."""
    first = session.scalar(select(func.min(Subscriber.created_at)).where(Subscriber.state == "active"))
    if first is None:
        return
    came = queries.loaded_lists(session, until=now)
    sources = session.execute(
        select(SourceRow.name, SourceRow.since, SourceRow.result)
        .where(SourceRow.is_on)
        .order_by(SourceRow.name)
    ).all()
    new = {one.at.date() for one in came if one.is_new}
    if quiet := expected_arrivals.silence(new, since=first.date(), today=now.date()):
        yield Problem(
            cause="no-papers",
            severity=Severity.NOTICE,
            message=f"No new papers came {quiet}",
            fix=NO_PAPERS_FIX,
            facts=tuple(f"{name}: {result}" for name, _, result in sources) or ("no source is polled",),
        )
        return
    found = {name: {one.at.date() for one in came if one.source == name} for name, *_ in sources}
    silent = {
        name: quiet
        for name, since, _ in sources
        if (quiet := expected_arrivals.silence(found[name], since=since, today=now.date()))
    }
    if silent:
        yield Problem(
            cause="silent-sources",
            severity=Severity.NOTICE,
            message="A source brings no papers",
            fix="Poll it now: digest sources poll SOURCE. If it is not needed: digest sources remove SOURCE.",
            facts=tuple(f"{name}: no list came {quiet}" for name, quiet in silent.items()),
        )


def full_inbox(session: Session) -> Iterator[Problem]:
    """Yield a problem if so much unread mail is stored that old mail is deleted for new mail."""
    if stored_mail.is_full(session):
        yield Problem(
            cause="full-inbox",
            severity=Severity.FAILURE,
            message="The inbox is full: the oldest mail is deleted for new mail",
            fix=(
                "Read the stored mail: digest inbox list. Delete what is not needed: digest inbox delete ID,"
                " digest inbox delete --from SENDER, digest inbox delete --all."
            ),
        )


@problem_of_facts(
    "failing-sources",
    "A source of papers cannot be read",
    "Try again: digest sources poll SOURCE. If the source is gone for good: digest sources remove SOURCE.",
)
def failing_sources(session: Session, _now: datetime) -> Iterable[str]:
    """Return the sources that have failed for hours."""
    is_failing = SourceRow.is_on, SourceRow.failures >= FAILING_AFTER
    failing = select(SourceRow.name, SourceRow.failures, SourceRow.result).where(*is_failing)
    for name, failures, result in session.execute(failing.order_by(SourceRow.name)):
        yield f"{name}: {result} ({failures} times)"


def slow_sign_ups(session: Session, now: datetime) -> Iterator[Problem]:
    """Yield a problem if unanswered confirmations have reduced the rate of new confirmations to its minimum."""
    if sign_up_limits.counts(session, now).is_lowest:
        yield Problem(
            cause="slow-sign-ups",
            severity=Severity.FAILURE,
            message="Many sign-ups are not confirmed, so new confirmations are sent slowly",
            fix=(
                "Somebody may be entering other people's addresses in the form. No reminders are sent for now. The rate"
                " rises by itself as sign-ups are confirmed. To close sign-up: DIGEST_SIGNUP=closed."
            ),
        )
