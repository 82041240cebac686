"""Serve health checks: `/healthz` for the process, `/readyz` for the whole service."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest.app_context import AppContext
from digest.monitoring import report
from digest.monitoring.report import Report
from digest.web.visits import Visit

CACHE_SECONDS = 15  #: seconds for which a report is cached, because counting a large outbox takes time


async def healthz(request: Request) -> PlainTextResponse:
    """Return `ok`, which shows that the process runs."""
    del request
    return PlainTextResponse("ok\n")


def readyz(visit: Visit) -> PlainTextResponse:
    """Return `ok`, or 503 with a line for each outage; the warnings are listed in both cases."""
    problems = latest_report(visit.context).problems
    outages = [problem.message for problem in problems if problem.is_outage]
    warnings = [f"warning: {problem.message}" for problem in problems if problem.is_warning]
    lines = [*(outages or ["ok"]), *warnings]
    return PlainTextResponse("".join(f"{line}\n" for line in lines), 503 if outages else 200)


def latest_report(context: AppContext) -> Report:
    """Return the report on the service, cached for up to 15 seconds while the database stays reachable."""
    now = context.clock()
    key = int(now.timestamp()) // CACHE_SECONDS, report.schema_revision(context.engine)
    return context.caches.get_or_make(
        "report", key, lambda: report.make_report(context.settings, context.engine, now)
    )
