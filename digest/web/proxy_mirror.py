"""Report to `digest doctor` how many proxies its request passed on the way to this web server.

Only `digest doctor` of this installation can use this page: the token in the URL is signed with our key and
is valid for one minute. The response contains only two numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from digest import links
from digest.monitoring import probes
from digest.web import request_context

TOKEN_LIFETIME = timedelta(seconds=60)


def show_proxies(request: Request) -> JSONResponse:
    """Return how many proxies added an address to this request, and the value of DIGEST_PROXIES."""
    context = request_context.context_of(request)
    subject = links.verify_token(context.site, probes.MIRROR_PURPOSE, request.path_params["token"])
    if subject is None or not is_fresh(subject, context.clock()):
        raise HTTPException(404)
    seen = probes.hops_behind_marker(request.headers.getlist("x-forwarded-for"))
    return JSONResponse({"proxies": context.settings.proxies, "seen": seen})


def is_fresh(subject: str, now: datetime) -> bool:
    """Return whether a token is less than a minute old."""
    moment = subject.partition("-")[0]
    return moment.isdigit() and abs(now - datetime.fromtimestamp(int(moment), UTC)) < TOKEN_LIFETIME
