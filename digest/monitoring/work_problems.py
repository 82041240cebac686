"""Find the processes that do not run, the due work that nobody does, and the digests that expired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from digest import plurals
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.delivery.outbox.silent_server import MailSilence
from digest.delivery.restore_point import RESTORED
from digest.monitoring.check_results import Problem, Severity
from digest.monitoring.figures import DAY, PATIENCE, PATIENCE_WITH_RUNS, DueWork, Figures
from digest.monitoring.supervisor import Supervisor
from digest.process import heartbeats
from digest.process.heartbeats import ProcessRecord
from digest.publishing import missed_editions

ROLES = ("scheduler", "worker")  #: roles that must run together
ROLE_NAMES = {"inbound": "inbound server", "web": "web server"}
#: An optional role without a heartbeat for this long counts as stopped on purpose.
SWITCHED_OFF_AFTER = timedelta(days=7)
MAX_NAMED = 20
SHORT_SILENCE = timedelta(minutes=2)  #: a mail server may restart within this time


#: How many of each kind of work are due, and what does not happen to them.
UNTAKEN: dict[str, tuple[str, str, str]] = {
    "digests": ("digest is", "digests are", "due, and none is composed"),
    "polls": ("source is", "sources are", "due, and none is polled"),
    "tasks": ("task is", "tasks are", "in the queue, and no worker takes tasks"),
    Lane.PROMPT: ("letter is", "letters are", "due, and none is sent"),
    Lane.BULK: ("letter is", "letters are", "due, and none is sent"),
}
SLOW = ("letter is", "letters are", "overdue, while others are sent")
SLOW_FIX = (
    "The mail server is slow, or a rate is too low (DIGEST_RATES). See the server's replies: digest deliveries --state"
    " queued."
)
CAUSES_OF_WORK = {"digests": "untaken-digests", "polls": "untaken-polls", "tasks": "queue"}


def find_work_problems(
    session: Session, figures: Figures, supervisor: Supervisor, now: datetime
) -> Iterator[Problem]:
    """Yield the problems of processes, due work and expired digests."""
    yield from stopped_processes(figures, supervisor, now)
    yield from work_not_done(figures, supervisor, now)
    yield from silent_mail_server(figures.silence, now)
    yield from expired_digests(session, figures, supervisor, now)


# ── processes ───────────────────────────────────────────────────────────────────────────────────


def stopped_processes(figures: Figures, supervisor: Supervisor, now: datetime) -> Iterator[Problem]:
    """Yield a problem for each expected role that does not run, and for each that has lost processes.

    The scheduler and the worker must run together. They are also expected if any other role runs, unless
    they never ran or `digest run` has replaced them.
    """
    known = {process.role for process in figures.processes}
    has_alive = any(not process.is_dead(now) for process in figures.processes)
    was_used = figures.last_task_at is not None and not figures.done_by_runs
    expected = {*ROLES} if known & {*ROLES} or (has_alive and was_used) else set()
    for role in [*ROLES, *sorted(known - {*ROLES})]:
        if role in expected | known:
            found = [process for process in figures.processes if process.role == role]
            yield from problems_of_role(role, found, supervisor, now, last_task_at=figures.last_task_at)


def problems_of_role(
    role: str,
    found: Sequence[ProcessRecord],
    supervisor: Supervisor,
    now: datetime,
    *,
    last_task_at: datetime | None,
) -> Iterator[Problem]:
    """Yield a problem if a role or some of its processes have stopped, but not while they may be restarting."""
    name, last = ROLE_NAMES.get(role, role), max((process.at for process in found), default=None)
    hung = " ".join(str(process.pid) for process in found if process.is_hung(now))
    command = supervisor.restart_hung(role, hung) if hung else supervisor.restart(role)
    fix = f"Start it again: {command}. Its log: {supervisor.log(role)}."
    if last is None or now - last > heartbeats.SILENT_AFTER:
        if role in ROLES or (last and now - last < SWITCHED_OFF_AFTER):
            message = f"The {name} has stopped" if last else f"There is no {name}"
            if hung:
                message = f"The {name} does not respond (process {hung})"
            yield Problem(cause=f"silent-{role}", message=message, fix=fix, since=last or last_task_at)
    elif dead := [
        one for one in heartbeats.missing_processes(found, now) if one.at < now - heartbeats.SILENT_AFTER
    ]:
        alive = sum(not process.is_dead(now) for process in found)
        yield Problem(
            cause=f"lost-{role}",
            message=f"{len(dead)} of {alive + len(dead)} {name}s stopped unexpectedly",
            fix=f"{fix} A process that is not replaced stays listed for a day.",
            since=dead[0].at,
            facts=tuple(
                f"process {one.pid} on {one.host}, last seen {one.at:%H:%M} UTC"
                + (", does not respond" if one.is_hung(now) else "")
                for one in dead
            ),
        )


# ── due work ──


def work_not_done(figures: Figures, supervisor: Supervisor, now: datetime) -> Iterator[Problem]:
    """Yield a problem for each kind of work that is due and that nobody takes, or that is far too slow."""
    patience = PATIENCE_WITH_RUNS if figures.done_by_runs else PATIENCE
    running = {process.role: process for process in figures.processes if not process.is_dead(now)}
    for work in (*figures.work, *tasks_to_take(running.values(), figures.last_task_at)):
        is_untaken = work.is_untaken(now, patience)
        if not is_untaken and not work.is_slow(now):
            continue
        if figures.done_by_runs and work.kind == "polls":
            continue  # each run polls first, which is early enough
        one, many, rest = UNTAKEN[work.kind] if is_untaken else SLOW
        missing = [role for role in ROLES if role not in running]
        yield Problem(
            cause=CAUSES_OF_WORK.get(work.kind, f"late-{work.kind}"),
            message=f"{plurals.count(work.count, one, many)} {rest}",
            fix=fix_of_work(figures, supervisor, missing) if is_untaken else SLOW_FIX,
            severity=Severity.OUTAGE if is_untaken else Severity.FAILURE,
            since=work.since,
            facts=who_works(figures, missing) if is_untaken else (),
        )


def silent_mail_server(silence: MailSilence | None, now: datetime) -> Iterator[Problem]:
    """Yield a problem if letters wait because no mail server can be reached, or each refuses TLS or the login."""
    if silence:
        yield Problem(
            cause="mail-not-taken",
            message="No letter can be delivered",
            fix=(
                "They are tried again every minute. Check the server, and host, port, user and password in"
                " DIGEST_MAIL_URL; digest doctor logs in as the worker does."
            ),
            severity=Severity.OUTAGE if now - silence.since > SHORT_SILENCE else Severity.WARNING,
            since=silence.since,
            facts=(silence.error,),
        )


def tasks_to_take(running: Iterable[ProcessRecord], taken_at: datetime | None) -> Iterator[DueWork]:
    """Yield the task that the scheduler enqueues twice a minute, if scheduler and worker run."""
    started = {one.role: one.started_at for one in running if one.role in ROLES}
    if len(started) == len(ROLES):
        yield DueWork(kind="tasks", count=1, since=max(started.values()), taken_at=taken_at)


def who_works(figures: Figures, missing: Sequence[str]) -> tuple[str, ...]:
    """Return which processes could do the work."""
    if figures.done_by_runs and figures.last_run_at:
        return (f"digest run last ran {figures.last_run_at:%Y-%m-%d %H:%M} UTC",)
    return tuple(f"no {role} runs" for role in missing) or ("scheduler and worker run",)


def fix_of_work(figures: Figures, supervisor: Supervisor, missing: Sequence[str]) -> str:
    """Return how to get the due work done."""
    if figures.done_by_runs:
        return run_often(supervisor)
    if missing:
        return f"Start: {supervisor.restart(*missing)}. Or use digest run instead. {run_often(supervisor)}"
    return (
        f"Restart: {supervisor.restart('worker')}. The log shows what blocks it: {supervisor.log('worker')}."
    )


def run_often(supervisor: Supervisor) -> str:
    """Return how to do all work without scheduler and worker."""
    return f"An hourly run reaches the readers of every hour; in a crontab: {supervisor.hourly_run}"


def expired_digests(
    session: Session, figures: Figures, supervisor: Supervisor, now: datetime
) -> Iterator[Problem]:
    """Yield a problem if digests expired in the last day, with the cause of each edition."""
    counts = func.count(), func.min(Delivery.due_at), func.max(Delivery.expires_at)
    rows = session.execute(
        select(Delivery.edition, Delivery.reason, *counts)
        .where(
            Delivery.state == DeliveryState.EXPIRED, Delivery.edition.is_not(None),
            Delivery.settled_at > now - DAY, Delivery.settled_at <= now, Delivery.reason != RESTORED,
        )
        .group_by(Delivery.edition, Delivery.reason)
        .order_by(func.max(Delivery.settled_at).desc(), Delivery.edition)
    ).all()  # fmt: skip
    if not rows:
        return
    is_missed = any(row[1] == missed_editions.CLOSED for row in rows)
    runs = (
        run_often(supervisor) if figures.done_by_runs else f"Keep them running: {supervisor.restart(*ROLES)}."
    )
    yield Problem(
        cause="expired-digests",
        message=f"{plurals.count(sum(row[2] for row in rows), 'digest')} expired unsent",
        fix=f"The next digests contain their papers. {runs if is_missed else 'See digest deliveries --state expired.'}",
        severity=Severity.FAILURE,
        facts=tuple(expired_fact(row) for row in rows[:MAX_NAMED]),
    )


def expired_fact(row: Row[str | None, str, int, datetime, datetime]) -> str:
    """Return why an edition expired: for a missed one, the time in which nothing ran."""
    edition, reason, count, due_at, closed_at = row
    if reason == missed_editions.CLOSED:
        reason = (
            f"nothing composed digests between {due_at:%Y-%m-%d %H:%M} and {closed_at:%Y-%m-%d %H:%M} UTC"
        )
    return f"{count} of {edition}: {reason or 'not sent in time'}"
