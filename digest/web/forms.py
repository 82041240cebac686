"""Read forms of limited size, and check that a person sent them from our pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
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

MIN_FORM_AGE = timedelta(seconds=2)  #: minimum time in which a person fills in a form
MAX_FORM_AGE = timedelta(days=2)  #: time after which a form must be loaded again

MAX_FIELDS = 200
READ_SECONDS = 30.0
SMALL_FORM = 64 * 1024  #: maximum bytes of a form that is read without waiting for other forms
LARGE_FORMS_AT_ONCE = 8  #: maximum number of larger forms that are read at the same time

FormAction = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def form_endpoint(action: FormAction, *, from_anywhere: bool = False) -> Endpoint:
    """Return an endpoint that reads a form and passes it to `action` in a thread.

    Forms must come from our own pages, except the one-click unsubscribe, which mail programs send. A form on
    one of the `UPLOAD_PATHS` may have a file.
    """

    async def endpoint(request: Request) -> Response:
        if not from_anywhere and not middleware.is_same_site(
            request.headers, request_context.context_of(request).site.url
        ):
            raise HTTPException(403)
        files = 1 if request.scope["path"] in middleware.UPLOAD_PATHS else 0
        async with large_forms_in_turn(request), read_form(request, files=files) as form:
            return await run_in_threadpool(action, request, form)

    return endpoint


@asynccontextmanager
async def large_forms_in_turn(request: Request) -> AsyncIterator[None]:
    """Allow only a few large forms to be read at a time, so that they cannot fill the memory."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) <= SMALL_FORM:
        yield
        return
    async with request.app.state.large_forms:
        yield


@asynccontextmanager
async def read_form(request: Request, *, files: int) -> AsyncIterator[FormData]:
    """Read a form within a time limit, and close its files afterwards."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            form = await request.form(
                max_files=files, max_fields=MAX_FIELDS, max_part_size=middleware.MAX_UPLOAD
            )
    except TimeoutError:
        raise HTTPException(408) from None
    try:
        yield form
    finally:
        await form.close()


def field_text(form: FormData, name: str, max_length: int = 2000) -> str:
    """Return the text of a field without NULs, truncated to `max_length`."""
    return clean_text(form.get(name, "")).strip()[:max_length]


def clean_text(value: object) -> str:
    """Return the text of a form value without NULs and halves of surrogate pairs; empty for a file."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", errors="replace").decode().replace("\0", "")


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
