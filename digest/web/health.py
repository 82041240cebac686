"""Answer health checks: `/healthz` for the process, `/readyz` for the whole service."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest.app_context import AppContext
from digest.monitoring import report
from digest.monitoring.report import Report
from digest.web import request_context

CACHE_SECONDS = 15  #: seconds for which a report is cached, since counting a large outbox takes time


async def healthz(request: Request) -> PlainTextResponse:
    """Answer ok while the process runs."""
    del request
    return PlainTextResponse("ok\n")


def readyz(request: Request) -> PlainTextResponse:
    """Answer ok if the service works, else 503 with one line for each outage; warnings follow either."""
    problems = latest_report(request_context.context_of(request)).problems
    outages = [problem.message for problem in problems if problem.is_outage]
    warnings = [f"warning: {problem.message}" for problem in problems if problem.is_warning]
    lines = [*(outages or ["ok"]), *warnings]
    return PlainTextResponse("".join(f"{line}\n" for line in lines), 503 if outages else 200)


def latest_report(context: AppContext) -> Report:
    """Return the report on the service, made at most every 15 seconds, and anew if the database comes or goes."""
    now = context.clock()
    key = int(now.timestamp()) // CACHE_SECONDS, report.schema_revision(context.engine)
    return context.caches.get_or_make(
        "report", key, lambda: report.make_report(context.settings, context.engine, now)
    )
