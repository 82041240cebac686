"""Monitor the service from the web server, which keeps running if another process stops.

The scheduler checks for problems too, but cannot report that it has itself stopped. The web server therefore
checks every minute. If the worker, the scheduler or the broker has stopped, the web server sends the alarm letter itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from threading import Event, Thread

from starlette.applications import Starlette

from digest.app_context import AppContext
from digest.db.tables.deliveries import Lane
from digest.monitoring import operator_letters
from digest.monitoring.check_results import Problem
from digest.process import heartbeats
from digest.process.heartbeats import HeartbeatThread
from digest.web import health

log = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
#: Causes of problems that keep all other processes from delivering letters or queueing their delivery.
DELIVER_FOR_CAUSES = frozenset(
    {"silent-worker", "silent-scheduler", "broker", "queue", "untaken-digests", "late-prompt", "late-bulk"}
)
MAX_LETTERS = 20


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Run the watchdog and the heartbeat as long as the web server runs."""
    context: AppContext = app.state.context
    heart = HeartbeatThread(role="web", engine=context.engine, clock=context.clock)
    heart.start()
    stop = start_watchdog(context)
    try:
        yield
    finally:
        stop.set()
        heart.stop()


def start_watchdog(context: AppContext) -> Event:
    """Check the service in a thread until the returned event is set."""
    stop = Event()
    Thread(target=run_watchdog, args=(context, stop), name="watch", daemon=True).start()
    return stop


def run_watchdog(context: AppContext, stop: Event) -> None:
    """Check the service every minute; log an error if a check fails."""
    known: set[str] = set()
    # Some processes start more slowly than this one, so the first check waits.
    stop.wait(heartbeats.SILENT_AFTER.total_seconds())
    while not stop.wait(CHECK_SECONDS):
        try:
            known = log_new_problems(check_once(context), known)
        except Exception:
            log.exception("could not check the service")


def log_new_problems(found: Iterable[Problem], known: set[str]) -> set[str]:
    """Log the problems whose causes are not in `known`; return the causes of all problems."""
    now = {problem.cause: problem for problem in found}
    for cause in now.keys() - known:
        log.error("%s. %s", now[cause].message, now[cause].fix)
    return set(now)


def check_once(context: AppContext) -> tuple[Problem, ...]:
    """Check the service once, queue a letter about problems, and deliver it if no worker can."""
    report = health.latest_report(context)
    operator = context.settings.operator_email
    # Without figures, the database is unreachable, so no letter can be queued.
    if report.figures is None or not report.problems or not operator:
        return report.problems
    with context.write_session() as session:
        operator_letters.queue_alarm_letters(
            session, report.problems, site=context.site, operator=operator, now=report.now
        )
    if any(problem.cause in DELIVER_FOR_CAUSES for problem in report.problems):
        deliver_alarms(context)
    return report.problems


def deliver_alarms(context: AppContext) -> None:
    """Deliver priority letters, such as alarms, while no worker runs."""
    with context.write_session() as session:
        context.deliver(session, clock=context.clock, lane=Lane.PROMPT, limit=MAX_LETTERS)
