"""A mirror for `digest doctor`: what its own request looks like once all proxies have passed it on.

Only the doctor of this house can ask: its question is sealed with our key and good for a minute. The
answer is two numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from digest import links, probes
from digest.web import house

LIFE = timedelta(seconds=60)


def show(request: Request) -> JSONResponse:
    """Tell how many proxies have put their word into this request, and how many this door believes."""
    ours = house.of(request)
    asked = links.unseal(ours.site, probes.MIRROR, request.path_params["token"])
    if asked is None or not is_fresh(asked, ours.clock()):
        raise HTTPException(404)
    seen = probes.hops_behind_marker(request.headers.getlist("x-forwarded-for"))
    return JSONResponse({"proxies": ours.settings.proxies, "seen": seen})


def is_fresh(asked: str, now: datetime) -> bool:
    """Return whether a question was made in the last minute."""
    moment = asked.partition("-")[0]
    return moment.isdigit() and abs(now - datetime.fromtimestamp(int(moment), UTC)) < LIFE
