"""Forms: read within limits, and known to come from a person who had the page before them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest.links import Site, seal, unseal
from digest.web import house, shell

QUICKEST = timedelta(seconds=2)  #: no person fills in a form faster
LONGEST = timedelta(days=2)  #: after that the page is opened anew

Act = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def posted(act: Act, *, from_anywhere: bool = False) -> Endpoint:
    """Return the endpoint that reads a form and gives it to `act`, in a thread of its own.

    Forms come from our own pages, but for the one-click unsubscribe, which mail programs send.
    """

    async def endpoint(request: Request) -> Response:
        if not from_anywhere and not shell.is_ours(request.headers, house.of(request).site.url):
            raise HTTPException(403)
        async with request.form(max_files=0, max_fields=200) as form:
            return await run_in_threadpool(act, request, form)

    return endpoint


def said(form: FormData, name: str, room: int = 2000) -> str:
    """Return what was typed into a field, without NULs, cut at a sensible length."""
    value = form.get(name, "")
    return value.replace("\0", "").strip()[:room] if isinstance(value, str) else ""


# ── the time a form was made ────────────────────────────────────────────────────────────────────


def stamp(site: Site, now: datetime) -> str:
    """Return the sealed moment at which a form was made."""
    return seal(site, "form", str(int(now.timestamp())))


def is_timely(site: Site, stamp: str, now: datetime) -> bool:
    """Return whether a form was open as long as people need, and not since the day before yesterday."""
    made = unseal(site, "form", stamp)
    if made is None or not made.isdigit():
        return False
    age = timedelta(seconds=now.timestamp() - int(made))
    return QUICKEST <= age <= LONGEST
