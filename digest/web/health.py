"""Answer health checks: `/healthz` for the process, `/readyz` for the whole service."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from digest.app_context import AppContext
from digest.monitoring import readiness
from digest.monitoring.problems import Problem
from digest.settings import Settings
from digest.web import request_context

CACHE_SECONDS = 15  #: seconds for which the checks of servers and disks are cached


async def healthz(request: Request) -> PlainTextResponse:
    """Answer ok while the process runs."""
    del request
    return PlainTextResponse("ok\n")


def readyz(request: Request) -> PlainTextResponse:
    """Answer ok if the service works, else 503 with one line for each problem; warnings follow either."""
    found = readiness_problems(request_context.context_of(request))
    failures = [problem for problem in found if not problem.is_warning]
    lines = [problem.message for problem in failures] or ["ok"]
    lines += [f"warning: {problem.message}" for problem in found if problem.is_warning]
    return PlainTextResponse("".join(f"{line}\n" for line in lines), 503 if failures else 200)


def readiness_problems(context: AppContext) -> list[Problem]:
    """Return the problems of database, servers and disks; only the database is checked each time."""
    return [*readiness.check_database(context.engine, context.clock()), *cached_server_problems(context)]


def cached_server_problems(context: AppContext) -> list[Problem]:
    """Return the problems of servers and disks, checked at most every 15 seconds."""
    moment = int(context.clock().timestamp()) // CACHE_SECONDS
    return context.caches.get_or_make("probes", moment, lambda: server_problems(context.settings))


def server_problems(settings: Settings) -> list[Problem]:
    """Return the servers that do not answer and the disks that are full."""
    return [*readiness.check_servers(settings), *readiness.check_disks(settings)]
