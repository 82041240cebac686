"""Watch the service from the web server, which does not depend on the worker and scheduler.

The scheduler checks for problems too, but cannot report its own death. So the web server checks every
minute, and if worker or scheduler have stopped, it sends the alarm letter itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from threading import Event, Thread

from starlette.applications import Starlette

from digest import heartbeats
from digest.app_context import AppContext
from digest.db.tables import Lane
from digest.delivery import delivery_run
from digest.heartbeats import HeartbeatThread
from digest.monitoring import problems
from digest.monitoring.problems import Problem
from digest.web import health

log = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
#: Problems with which nothing else delivers letters, or nothing enqueues their delivery.
DELIVER_FOR_CAUSES = frozenset({"silent-worker", "silent-scheduler", "broker"})
UNREADABLE = frozenset({"database", "schema"})  #: problems with which no letter can be written
MAX_LETTERS = 20


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Watch, and record that this process is alive, from its first request to its last."""
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
    """Check every minute; log errors of the check itself."""
    known: set[str] = set()
    stop.wait(heartbeats.SILENT_AFTER.total_seconds())  # all roles start together, some of them slowly
    while not stop.wait(CHECK_SECONDS):
        try:
            known = log_new_problems(check_once(context), known)
        except Exception:
            log.exception("the check of the service failed")


def log_new_problems(found: Iterable[Problem], known: set[str]) -> set[str]:
    """Log the problems that are new, and return the causes of all."""
    now = {problem.cause: problem for problem in found}
    for cause in now.keys() - known:
        log.error("%s. %s", now[cause].message, now[cause].fix)
    return set(now)


def check_once(context: AppContext) -> list[Problem]:
    """Check once: write to the operator about problems, and deliver the letter if nothing else does."""
    now, found = context.clock(), health.readiness_problems(context)
    if any(problem.cause in UNREADABLE for problem in found):
        return found
    with context.read_session() as session:
        found = [*problems.find_problems(session, now=now), *health.cached_server_problems(context)]
    if not found or not context.settings.operator_email:
        return found
    with context.write_session() as session:
        problems.queue_alarm_letters(
            session, found, site=context.site, operator=context.settings.operator_email, now=now
        )
    if any(problem.cause in DELIVER_FOR_CAUSES for problem in found):
        deliver_alarms(context)
    return found


def deliver_alarms(context: AppContext) -> None:
    """Deliver prompt letters, such as alarms, because no worker does."""
    with context.write_session() as session, context.open_transport() as transport:
        delivery_run.deliver(
            session,
            site=context.site,
            templates=context.templates,
            transport=transport,
            clock=context.clock,
            signers=context.signers,
            limits=context.settings.limits,
            window=context.settings.window,
            lane=Lane.PROMPT,
            limit=MAX_LETTERS,
        )
