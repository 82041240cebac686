"""Read forms of limited size, and check that they were sent by a person from our pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest.caches import Caches
from digest.links import sign_token, verify_token
from digest.site_profile import Site
from digest.web import middleware, request_context

#: Minimum time between loading and sending a form; programs are faster than people.
MIN_FORM_AGE = timedelta(seconds=2)
MAX_FORM_AGE = timedelta(days=2)  #: time after which a form is too old to be sent and must be loaded again

MAX_COUNTED = 10_000  #: maximum number of stamps, or of networks, whose uses are counted
MAX_FIELDS = 200
READ_SECONDS = 30.0
SMALL_FORM = 64 * 1024  #: maximum number of bytes of a form that is read without waiting for other forms
LARGE_FORMS_AT_ONCE = 8  #: maximum number of larger forms read at the same time

#: The response time of a form that asks for an address is a multiple of this many seconds, so that it does not
#: reveal who is subscribed.
RESPONSE_STEP = 0.2

FormAction = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def form_endpoint(action: FormAction, *, from_anywhere: bool = False) -> Endpoint:
    """Return an endpoint that reads a form and calls `action` with it in a thread.

    Forms must be sent from our own pages. The exception is the one-click unsubscribe, which mail programs
    send. On the `UPLOAD_PATHS`, a form may contain a file.
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


def respond_in_steps(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that delays the response until the time taken is a multiple of RESPONSE_STEP."""

    async def delayed(request: Request) -> Response:
        began = perf_counter()
        response = await endpoint(request)
        await request.app.state.sleep(RESPONSE_STEP - (perf_counter() - began) % RESPONSE_STEP)
        return response

    return delayed


@asynccontextmanager
async def large_forms_in_turn(request: Request) -> AsyncIterator[None]:
    """Let only a few large forms be read at a time, so that they cannot fill the memory."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) <= SMALL_FORM:
        yield
        return
    async with request.app.state.large_forms:
        yield


@asynccontextmanager
async def read_form(request: Request, *, files: int) -> AsyncIterator[FormData]:
    """Read a form within a time limit; close its files when the form has been processed."""
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
    """Return the text of a field without NUL characters, truncated to `max_length`."""
    return clean_text(form.get(name, "")).strip()[:max_length]


def clean_text(value: object) -> str:
    """Return a form value's text without NULs and unpaired surrogates; "" for a file."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", errors="replace").decode().replace("\0", "")


# ── when a form was opened ──────────────────────────────────────────────────────────────────────


def form_stamp(site: Site, now: datetime) -> str:
    """Return a signed stamp, unlike any other, with the time when a form was loaded."""
    return sign_token(site, "form", f"{int(now.timestamp())}-{token_hex(8)}")


def is_timely(site: Site, stamp: str, now: datetime) -> bool:
    """Return whether a form was sent between 2 seconds and 2 days after it was loaded."""
    made = (verify_token(site, "form", stamp) or "").partition("-")[0]
    if not made.isdigit():
        return False
    age = timedelta(seconds=now.timestamp() - int(made))
    return MIN_FORM_AGE <= age <= MAX_FORM_AGE


def count_use(caches: Caches, name: str, key: object) -> int:
    """Return how often this process counted `key` before, such as a stamp or a network and a day."""
    return next(caches.get_or_make(name, key, count, bound=MAX_COUNTED))
