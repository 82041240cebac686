"""Read forms of limited size, and check that a person sent them from our pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest.links import sign_token, verify_token
from digest.site_profile import Site
from digest.web import middleware, request_context

MIN_FORM_AGE = timedelta(seconds=2)  #: no person fills in a form faster
MAX_FORM_AGE = timedelta(days=2)  #: time after which the page must be loaded again

FormAction = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def form_endpoint(action: FormAction, *, from_anywhere: bool = False) -> Endpoint:
    """Return an endpoint that reads a form and passes it to `action` in a thread.

    Forms must come from our own pages, except the one-click unsubscribe, which mail programs send.
    """

    async def endpoint(request: Request) -> Response:
        if not from_anywhere and not middleware.is_same_site(
            request.headers, request_context.context_of(request).site.url
        ):
            raise HTTPException(403)
        async with request.form(max_files=0, max_fields=200) as form:
            return await run_in_threadpool(action, request, form)

    return endpoint


def field_text(form: FormData, name: str, max_length: int = 2000) -> str:
    """Return the text of a field without NULs, truncated to `max_length`."""
    value = form.get(name, "")
    return value.replace("\0", "").strip()[:max_length] if isinstance(value, str) else ""


# ── when a form was opened ──────────────────────────────────────────────────────────────────────


def form_stamp(site: Site, now: datetime) -> str:
    """Return a signed timestamp of when a form was opened."""
    return sign_token(site, "form", str(int(now.timestamp())))


def is_timely(site: Site, stamp: str, now: datetime) -> bool:
    """Return whether a form was open for at least 2 seconds and at most 2 days."""
    made = verify_token(site, "form", stamp)
    if made is None or not made.isdigit():
        return False
    age = timedelta(seconds=now.timestamp() - int(made))
    return MIN_FORM_AGE <= age <= MAX_FORM_AGE
